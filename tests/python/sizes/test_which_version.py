"""Which version of several runs is a function of the inputs: of those that fit, the oldest, in whatever order the calls came. Their results are
the same bits anyway."""

import random

import pytest
import torch

from escapement.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh")


def degenerate(x, w):
    """A first call with a size of 1 makes a version for 1; the next one is for all sizes, 1 among them."""
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
    compiled = torch.compile(degenerate, backend="escapement")
    w = torch.randn(4, 4)
    with torch.no_grad():
        one, many = torch.randn(1, 4), torch.randn(5, 4)
        for x in (one, many, one, many):
            compiled(x, w)
        first, _ = versions_run(lambda: compiled(one, w))
        general, _ = versions_run(lambda: compiled(many, w))
        assert first != general
        compiled(many, w)
        assert versions_run(lambda: compiled(one, w))[0] == first
