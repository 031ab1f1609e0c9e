"""Strides of results, first recorded where they say nothing (sizes 0 and 1) or where two orders of the axes look alike: eager's at all other
sizes, in call mode. Transposed operands, whose order is known for all sizes, need one recording.
"""

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
