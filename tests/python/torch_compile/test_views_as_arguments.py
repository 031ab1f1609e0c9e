"""Arguments that are views: slices of a batch, rows of a table, transposed weights. What they are views of is no reason to compile again (steering/view_bases.py), unless the program
looks behind them; what it writes, returns and differentiates is eager's.
"""

import itertools

import pytest
import torch

import escapement  # noqa: F401  (the backend)
from escapement.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh")


def rising(*shape):
    return torch.arange(float(torch.Size(shape).numel())).reshape(-1).clone().view(shape) / 7


def whole(*shape):
    return rising(*shape).clone()


# Matrices of two and more rows and columns, each a view of something else, or of nothing.
MAKERS = {
    "whole": lambda n: whole(n, 3),
    "slice": lambda n: whole(n + 4, 3)[2:n + 2],
    "slice of a wide one": lambda n: whole(2 * n + 7, 3)[n:2 * n],
    "line": lambda n: whole(3 * n).view(n, 3),
    "row of three axes": lambda n: whole(3, n, 3)[1],
    "the only row of three axes": lambda n: whole(1, n, 3)[0],
    "view of a view": lambda n: whole(2, n + 1, 3)[1][1:],
    "complex": lambda n: torch.view_as_real(torch.complex(whole(n), whole(n) + 1)).reshape(-1)[: 2 * n].view(n, 2).new_ones(n, 3)[0:],
    "other dtype": lambda n: torch.arange(n * 3, dtype=torch.int32).view(torch.float32).view(n, 3),
    "detached": lambda n: whole(n, 3).requires_grad_().detach(),
}
PROGRAMS = {
    "computes": lambda x: (x * 2 + 1).relu().sum(-1),
    "writes": lambda x: (x.mul_(2), x + 1)[1],
    "writes a part": lambda x: (x[1:].add_(1), x.sum(0))[1],
    "returns a view": lambda x: (x[1:], x * 2),
    "returns itself": lambda x: (x, x.t()),
    "size": lambda x: x * x.shape[0],
}


def around(tensor):
    """The memory in which it lies."""
    return tensor if tensor._base is None else tensor._base


def compiles(function, calls):
    before = LEDGER.counters()["compiles"]
    compiled = torch.compile(function, backend="escapement")
    for make in calls:
        mine, theirs = make(), make()
        ours, eagers = compiled(mine), function(theirs)
        torch.testing.assert_close(ours, eagers, equal_nan=True)
        torch.testing.assert_close(around(mine), around(theirs), equal_nan=True)
        for a, b in zip(*(value if isinstance(value, tuple) else (value,) for value in (ours, eagers))):
            assert a._is_view() == b._is_view() and a.stride() == b.stride()
    return LEDGER.counters()["compiles"] - before


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("first", MAKERS)
def test_one_compile_for_all(first, program):
    names = [first, *(name for name in MAKERS if name != first)]
    calls = [lambda name=name, n=n: MAKERS[name](n) for n, name in itertools.product((4, 2, 7), names)]
    assert compiles(PROGRAMS[program], calls) == 1


@pytest.mark.parametrize("first", MAKERS)
def test_one_compile_for_all_in_training(first):
    layer = torch.nn.Linear(3, 2)
    compiled = torch.compile(layer, backend="escapement")
    names = [first, *(name for name in MAKERS if name not in (first, "other dtype"))]
    before = LEDGER.counters()["compiles"]
    for n, name in itertools.product((4, 2, 7), names):
        gradients = []
        for function in (layer, compiled):
            layer.zero_grad()
            function(MAKERS[name](n)).square().sum().backward()
            gradients.append(layer.weight.grad.clone())
        torch.testing.assert_close(gradients[1], gradients[0])
    assert LEDGER.counters()["compiles"] - before == 1


def leaves(n):
    """Views that autograd follows, with the leaf."""
    one, two, three = (whole(*shape).requires_grad_() for shape in ((n + 2, 3), (2, n, 3), (3 * n,)))
    return [(one[1:n + 1], one), (two[1], two), (three.view(n, 3), three)]


def test_views_of_leaves():
    function = lambda x: (x * x).sum(-1).relu()  # noqa: E731
    compiled = torch.compile(function, backend="escapement")
    for n in (4, 2, 7):
        for (mine, leaf), (theirs, other) in zip(leaves(n), leaves(n)):
            compiled(mine).sum().backward()
            function(theirs).sum().backward()
            torch.testing.assert_close(leaf.grad, other.grad)
    assert LEDGER.counters()["compiles"] == 1


# --- what depends on the base

BEHIND = {
    "base's size": lambda x: x + (x._base.shape[0] if x._base is not None else 0),
    "base's rank": lambda x: x + (x._base.dim() if x._base is not None else 7),
    "base's values": lambda x: x + (x._base.sum() if x._base is not None else 0),
    "is there one": lambda x: x + (1 if x._base is None else 2),
    "is it a view": lambda x: x + (1 if x._is_view() else 2),
    "base of a part": lambda x: x + (1 if x[0:]._base is x else 2),
    "storage": lambda x: x + x.untyped_storage().nbytes(),
    "branch on the base's size": lambda x: x + 1 if x._base is not None and x._base.shape[0] > 5 else x * 2,
    "branch on a size and the base's": lambda x: x + 1 if x._base is not None and x._base.shape[0] > x.shape[0] else x * 2,
    "branch on the storage": lambda x: x + 1 if x.untyped_storage().nbytes() > 60 else x * 2,
    "branch on the base of a part": lambda x: x + 1 if x[1:]._base.shape[0] > 4 else x * 2,
    "storage's size": lambda x: x + x.untyped_storage().size() // 4,
}


@pytest.mark.parametrize("program", BEHIND)
@pytest.mark.parametrize("first", MAKERS)
def test_a_program_that_looks_behind_its_argument(first, program):
    names = [first, *(name for name in MAKERS if name != first)]
    compiled = torch.compile(BEHIND[program], backend="escapement")
    for name, n in itertools.product(names, (4, 2)):
        torch.testing.assert_close(compiled(MAKERS[name](n)), BEHIND[program](MAKERS[name](n)), equal_nan=True, msg=lambda text: f"{name}, {n}: {text}")


SHARING = {
    "parts that lie apart": lambda base: (base[:2], base[2:4]),
    "parts that overlap": lambda base: (base[:3], base[1:4]),
    "base and part": lambda base: (base[0:], base[1:]),
    "twice the same": lambda base: (base[1:], base[1:]),
    "not the same memory": lambda base: (base[:2], base.clone()[2:4]),
}


@pytest.mark.parametrize("program", [lambda x, y: (x.add_(1), x[:1] + y[:1])[1], lambda x, y: x[:1] * y[:1], lambda x, y: (y.mul_(x[:1] + 0), x * 2)[1]],
                         ids=["first is written", "none is written", "second is written"])
@pytest.mark.parametrize("first", SHARING)
def test_arguments_in_one_memory(first, program):
    compiled = torch.compile(program, backend="escapement")
    for name in (first, *SHARING):
        for base in (lambda: whole(6, 3), lambda: whole(12, 2), lambda: whole(2, 5, 4)[1], lambda: whole(30).view(6, 5)):
            mine, theirs = base(), base()
            torch.testing.assert_close(compiled(*SHARING[name](mine)), program(*SHARING[name](theirs)))
            torch.testing.assert_close(mine, theirs)
