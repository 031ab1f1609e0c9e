"""Which version of several runs is a function of the inputs: of those that fit, the oldest, in whatever order the calls came. Their results are
the same bits anyway."""

import random

import pytest
import torch

from escapement.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh")


def degenerate(x, w):
    """A size of 1 is served by the version for all sizes, whichever of them comes first."""
    return torch.softmax(x @ w, -1).sum(0) * x.shape[0]


def branches(x, w):
    y = x @ w if x.shape[0] > 3 else w.sum() - x
    return y.exp() if x.shape[1] > 8 else y.sum(0)


def exact(x, w):
    """After two recompiles the read is a graph break, in a version that fits what the pinned ones fit."""
    y = (x @ w).tanh()
    for _ in range(x.shape[0]):
        y = y + x.mean()
    return y


PROGRAMS = {program.__name__: program for program in (degenerate, branches, exact)}


def runs():
    """How often each version of each region has run, its recording included."""
    infos = [region.info() for function in LEDGER.functions() for region in function.regions()]
    return {(info["name"], number): version["hits"] + 1 for info in infos for number, version in enumerate(info["versions"])}


def versions_run(call):
    before = runs()
    result = call()
    after = runs()
    assert set(after) == set(before), "this call was to be served by what there is"
    return tuple(sorted(name for name in after if after[name] != before[name])), result.numpy().tobytes()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", range(4))
def test_the_same_version_whatever_was_called_before(name, seed):
    numbers, program = random.Random(seed), PROGRAMS[name]
    compiled = torch.compile(program, backend="escapement")
    calls = [(torch.randn(rows, columns), torch.randn(columns, columns)) for rows in (1, 5, 2, 7) for columns in (4, 9)]
    seen = {}
    with torch.no_grad():
        for _ in range(2):
            for call in calls:
                compiled(*call)
        for _ in range(60):
            number = numbers.randrange(len(calls))
            seen.setdefault(number, set()).add(versions_run(lambda number=number: compiled(*calls[number])))
    assert all(len(outcomes) == 1 for outcomes in seen.values()), seen


def test_the_oldest_that_fits_runs():
    compiled = torch.compile(exact, backend="escapement")
    w = torch.randn(4, 4)
    with torch.no_grad():
        pinned, other, many = (torch.randn(rows, 4) for rows in (2, 3, 5))
        for x in (pinned, other, many, pinned, many):
            compiled(x, w)
        first, _ = versions_run(lambda: compiled(pinned, w))
        general, _ = versions_run(lambda: compiled(many, w))
        assert first != general
        compiled(many, w)
        assert versions_run(lambda: compiled(pinned, w))[0] == first


def test_one_version_serves_a_first_size_of_one_and_all_others():
    compiled = torch.compile(degenerate, backend="escapement")
    w = torch.randn(4, 4)
    with torch.no_grad():
        compiled(torch.randn(1, 4), w)
        served = [versions_run(lambda rows=rows: compiled(torch.randn(rows, 4), w))[0] for rows in (5, 1, 0, 7)]
    assert served == served[:1] * 4 and len(runs()) == 1
