"""Strides of results, first recorded where they say nothing (sizes 0 and 1) or where two orders of the axes look alike: eager's at all other
sizes, in call mode. Transposed operands, whose order is known for all sizes, need one recording.
"""

import itertools

import pytest
import torch
import torch.nn.functional as F

import escapement
from answered import Counted


def rows(x):
    return x if x.dim() == 3 else x[None]


OPERATORS = {
    "relu": torch.relu, "add": lambda x: x + x, "scaled": lambda x: 2 * x, "where": lambda x: torch.where(x > 0, x, 2.0), "clone": lambda x: x.clone(),
    "to": lambda x: x.to(torch.int64), "round": torch.round, "integers": lambda x: x.char().round().clamp(min=0), "pow": lambda x: x.abs() ** x,
    "power of a number": lambda x: 2 ** x, "logsigmoid": F.logsigmoid, "hardswish": F.hardswish, "lerp": lambda x: torch.lerp(x, x + 1, 0.5),
    "picked": lambda x: x[torch.arange(x.shape[0])], "padded by nothing": lambda x: F.pad(x, (0, 0)),
    "mixed": lambda x: F.conv1d(rows(x), torch.ones(3, rows(x).shape[1], 1)) if x.numel() else x,
    "pooled": lambda x: F.adaptive_avg_pool1d(rows(x), 2) if x.numel() else x,
    "softmax": lambda x: x.softmax(-1), "sum": lambda x: x.sum(0), "cat": lambda x: torch.cat([x, x]), "frac": lambda x: x.frac(), "gelu": F.gelu,
    "pad": lambda x: F.pad(x, (1, 0, 0, 2)), "pad with nothing": lambda x: F.pad(x, (0, 0, 0, 0)), "pad to the next even": lambda x: F.pad(x, (0, x.shape[-1] % 2)),
    "pad channels last": lambda x: F.pad(x[None, None].movedim(-1, 1), (0, 1, 1, 0)), "pad one channel": lambda x: F.pad(x[None, None], (0, 1)),
    "pad pixels": lambda x: F.pad(x[:, None, None].movedim(-1, 1), (1, 1)),
}
VIEWS = {
    "transposed": lambda x: x.mT, "rows of transposed": lambda x: x.mT[::2], "columns of transposed": lambda x: x.mT[:, ::3], "stepped": lambda x: x[:, ::2],
    "repeated": lambda x: x[..., None].expand(*x.shape, 2).transpose(0, -1), "itself": lambda x: x,
}
FIRST = ((0, 0), (1, 1), (1, 3), (2, 2), (4, 3))
SIZES = ((2, 3), (1, 2), (3, 1), (4, 6), (2, 2), (5, 1), (0, 3), (7, 11))


def same_layout(ours, eager):
    matters = [size != 1 for size in eager.shape]
    strides = [[s for s, m in zip(t.stride(), matters) if m] for t in (ours, eager)]
    return ours.shape == eager.shape and (not eager.numel() or strides[0] == strides[1]) and torch.allclose(ours, eager, 1e-4, 1e-5)


def calls(first):
    for seed, sizes in enumerate((first, *SIZES)):
        yield torch.randn(sizes, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", OPERATORS)
def test_strides(name, view, first):
    def program(x):
        return OPERATORS[name](VIEWS[view](x))

    function = escapement.jit(program)
    for x in calls(first):
        ours, eager = function(x), program(x)
        assert same_layout(ours, eager), (x.shape, ours.stride(), eager.stride())


@pytest.mark.parametrize("name", ("relu", "add", "where", "clone", "to", "gelu"))
def test_an_order_that_is_known_takes_one_recording(name):
    function = escapement.jit(lambda x: OPERATORS[name](x.mT))
    for x in calls((3, 5)):
        function(x)
    assert function.info()["recordings"] == 1, function.info()


# Each has two axes that no operand holds both of: guards on the strides of axes of one element must cost no recording.
WAITING = {
    "differences": lambda x, y: x[:, None] - y[None],
    "masks": lambda x, y: (x[None, None] > 0) & (y[:, None, None, :] > 0),
    "products": lambda x, y: torch.relu(x[:, None, :, None] * y[None, :, None]),
}


@pytest.mark.parametrize("name", WAITING)
def test_axes_in_no_order_by_themselves_are_one_recording(name):
    made = Counted(WAITING[name], mode="call")
    for rows_, others, columns in made.twice(((4, 3, 5), (1, 3, 5), (7, 1, 2), (11, 13, 1), (1, 1, 1), (17, 2, 31), (0, 3, 5))):
        x, y = torch.randn(rows_, columns), torch.randn(others, columns)
        before = escapement.stats().get("launches", 0)
        ours, eager = made(x, y), WAITING[name](x, y)
        assert torch.equal(ours, eager)
        assert not eager.numel() or all(n == 1 or a == b for n, a, b in zip(eager.shape, ours.stride(), eager.stride()))
        assert made.round["recorded"] or not eager.numel() or escapement.stats()["launches"] == before + 1
    made.expect()
    assert (made.rounds[0]["recorded"], made.rounds[1]["recorded"]) == (1, 0), made.rounds


# Broadcast operands whose axes lie in other orders, at sizes of which one or more are 1: there their strides address nothing, and still decide.
AXES = list(itertools.permutations(range(3)))
EDGES = ((2, 2, 1), (1, 2, 2), (2, 1, 2), (1, 1, 3), (3, 4, 2), (2, 3, 1), (1, 3, 2), (3, 1, 1), (2, 2, 2))


def laid_out(sizes, order, seed):
    """Memory in which the axes have this order, the outermost first."""
    made = torch.randn([sizes[axis] for axis in order], generator=torch.Generator().manual_seed(seed))
    return made.permute([order.index(axis) for axis in range(len(sizes))])


@pytest.mark.parametrize("first", range(3))
@pytest.mark.parametrize("order", AXES, ids=str)
@pytest.mark.parametrize("plane", ((0, 1), (1, 0)), ids=str)
def test_strides_of_broadcast_operands(plane, order, first):
    function = escapement.jit(lambda x, y: x / y)
    for seed, sizes in enumerate((EDGES[first], *EDGES)):
        x, y = laid_out(sizes[1:], plane, seed), laid_out(sizes, order, seed + 100)
        ours, eager = function(x, y), x / y
        assert same_layout(ours, eager), (x.stride(), y.shape, y.stride(), ours.stride(), eager.stride())


# An operand with an axis that happens to be 1 while the other's is not: not until the operator is there does the recording know that it is broadcast.
NARROWED = {
    "topk": lambda x: x.topk(1).values, "sliced": lambda x: x[:, :, :1], "copied": lambda x: x[..., :1].contiguous(), "amax": lambda x: x.amax(2, keepdim=True),
    "cumsum": lambda x: x.cumsum(0)[:, :1], "sorted": lambda x: x.sort(0).values[:1],
}


@pytest.mark.parametrize("mode", ("call", "replay"))
@pytest.mark.parametrize("name", NARROWED)
@pytest.mark.parametrize("order", AXES, ids=str)
def test_strides_beside_an_operand_that_is_narrowed(order, name, mode):
    for first in EDGES[::2]:
        function = escapement.jit(lambda x: NARROWED[name](x) * x, mode=mode)
        for seed, sizes in enumerate((first, first, *EDGES)):
            x = laid_out(sizes, order, seed)
            ours, eager = function(x), NARROWED[name](x) * x
            assert same_layout(ours, eager), (x.shape, x.stride(), ours.stride(), eager.stride())


# Labels of one element leave the matrix product, and the result lies otherwise.
EINSUMS = ("...s,...s->...", "...ij,...kj->...ki", "aij,akj->aik", "aij,ajk->iak", "aij,bij->ab", "aij,aij->ija")


@pytest.mark.parametrize("order", AXES, ids=str)
@pytest.mark.parametrize("equation", EINSUMS)
def test_strides_of_einsum(equation, order):
    for first in ((2, 2, 2), (1, 2, 2), (2, 2, 1)):
        function = escapement.jit(lambda x, y: torch.einsum(equation, x, y))
        for seed, sizes in enumerate((first, *EDGES, (2, 2, 2))):
            sizes = (sizes[0], sizes[1], sizes[1]) if "jk" in equation else sizes
            x, y = laid_out(sizes, order, seed), laid_out(sizes, (0, 1, 2), seed + 100)
            ours, eager = function(x, y), torch.einsum(equation, x, y)
            assert same_layout(ours, eager), (sizes, x.stride(), ours.stride(), eager.stride())


# Not (2, 0, 1): the first operand has the last axis inside of the other one, the second one outside of the third, and that outside of the other.
@pytest.mark.parametrize("order", [order for order in AXES if order != (2, 0, 1)], ids=str)
def test_broadcast_operands_of_usual_layouts_are_one_recording(order):
    function = escapement.jit(lambda x, y: x / y)
    for seed, sizes in enumerate(((3, 4, 5), (1, 4, 5), (3, 1, 5), (3, 4, 1), (1, 1, 1), (17, 2, 31))):
        function(laid_out(sizes[1:], (0, 1), seed), laid_out(sizes, order, seed))
    assert function.info()["recordings"] == 1, function.info()["recordings"]


# All strides, also those of axes of one element, which address nothing: programs see them (`stride()`, NumPy), and so do operators that ask for a view.
IMAGES = {
    "relu": torch.relu, "scaled": lambda x: x * 2, "add": lambda x: x + x, "to": lambda x: x.double(), "clone": lambda x: x.clone(), "compared": lambda x: x > 0,
    "where": lambda x: torch.where(x > 0, x, 0.0), "masked": lambda x: x.masked_fill(x > 0, 0), "biased": lambda x: x + torch.ones(x.shape[1], 1, 1),
    "zeros_like": torch.zeros_like, "less its mean": lambda x: x - x.mean((2, 3), keepdim=True), "half": lambda x: x.to(torch.bfloat16) + 1,
    "chain": lambda x: (x * 2).relu().exp(), "clone of a result": lambda x: (x + 1).clone(), "softmax": lambda x: x.softmax(1), "cat": lambda x: torch.cat([x, x], 1),
}
LAID = {
    "contiguous": lambda x: x, "channels last": lambda x: x.contiguous(memory_format=torch.channels_last), "lines across": lambda x: x.mT.contiguous().mT,
    "batches inside": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1), "stepped": lambda x: torch.cat([x, x], -1)[..., ::2],
}
ONES = ((2, 3, 4, 4), (1, 3, 4, 4), (2, 1, 4, 4), (1, 1, 4, 4), (2, 3, 4, 1), (2, 3, 1, 4), (1, 3, 1, 4))


@pytest.mark.parametrize("mode", ("call", "replay"))
@pytest.mark.parametrize("laid", LAID)
@pytest.mark.parametrize("name", IMAGES)
def test_strides_of_axes_of_one_element(name, laid, mode):
    function = escapement.jit(IMAGES[name], mode=mode)
    for seed, sizes in enumerate((*ONES, *ONES)):
        x = LAID[laid](torch.randn(sizes, generator=torch.Generator().manual_seed(seed)))
        ours, eager = function(x), IMAGES[name](x)
        assert ours.stride() == eager.stride(), (sizes, x.stride())
        torch.testing.assert_close(ours, eager)


@pytest.mark.parametrize("laid", ("plain", "transposed"))
@pytest.mark.parametrize("first", FIRST[1:])
def test_kron(laid, first):
    def program(x, k):
        y = x.clamp_(k, 4).abs().sqrt()
        return torch.kron(y, x)

    function = escapement.jit(program)
    for sizes in (first, *SIZES):
        pair = [laid_out(sizes, (0, 1) if laid == "plain" else (1, 0), 7) for _ in range(2)]
        for k in (0, -1):
            ours, eager = function(pair[0], k), program(pair[1], k)
            assert same_layout(ours, eager), (sizes, ours.stride(), eager.stride())


# ATen converts an operand of another dtype before it looks at strides: what was expanded is a copy then, with a stride along each axis.
CONVERTED = {
    "compared": lambda x, i: i < x, "added": lambda x, i: x + i, "first": lambda x, i: i - x, "divided": lambda x, i: i / 2, "integers": lambda x, i: i / i.flip(0),
    "chosen": lambda x, i: torch.where(x > 0, i, x), "truths": lambda x, i: (i > 0) * x, "doubles": lambda x, i: x.double() * i, "same": lambda x, i: x * i.float(),
}


@pytest.mark.parametrize("name", CONVERTED)
@pytest.mark.parametrize("first", ((2, 2), (0, 1), (1, 2), (3, 1), (1, 1)))
def test_expanded_operands_of_another_dtype(name, first):
    def program(x, i):
        turned = x.expand(2, *x.shape).swapaxes(0, -1)
        return CONVERTED[name](turned, i.expand_as(turned))

    function = escapement.jit(program)
    for rows, columns in (first, (2, 2), (3, 5), (5, 2), (7, 11), first):
        x, i = torch.randn(rows, columns), torch.arange(1, rows + 1)[:, None]
        ours, eager = function(x, i), program(x, i)
        assert same_layout(ours, eager) and ours.dtype == eager.dtype, (x.shape, ours.stride(), eager.stride())
    assert function.info()["recordings"] <= 3 and not function.info()["eager"], function.info()
