"""Whole programs through torch.compile: every kind of operator and construct that a graph may hold. Each is compiled once for all
sizes (counted; cond once more for sizes of 1, since torch cannot trace it without telling them apart), nothing falls back, results
are eager's."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import escapement
from escapement.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh")
SHAPES = [(4, 8), (3, 5), (7, 2), (1, 6), (9, 3)]


def with_shapes(make):
    return [make(*shape) for shape in SHAPES]


def autocast(x, w):
    with torch.autocast("cpu", torch.bfloat16):
        return F.linear(x, w) * 2


def loop(x):
    return torch._higher_order_ops.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2 + 1), (torch.tensor(0), x))[1]


# name -> program, argument lists, recordings of each compile; the bodies of its operators are recorded once each
PROGRAMS = {
    "index": (lambda x, i: x[i] * 2 + 1, with_shapes(lambda n, m: (torch.randn(n, m), torch.randint(-n, n, (5,)))), [1]),
    "index_two": (lambda x, i, j: x[i, j] * 2, with_shapes(lambda n, m: (torch.randn(n, m), torch.randint(0, n, (5,)),
                                                                         torch.randint(0, m, (5,)))), [1]),
    "cumsum": (lambda x: (x * 2).cumsum(-1) + 1, with_shapes(lambda n, m: (torch.randn(n, m),)), [1]),
    "sort": (lambda x: x.sort(-1)[0] * 2, with_shapes(lambda n, m: (torch.randn(n, m),)), [1]),
    "topk": (lambda x: x.topk(2)[0] * 2, with_shapes(lambda n, m: (torch.randn(n, m),)), [1]),
    "scatter": (lambda x, i: torch.zeros_like(x).scatter_add(0, i, x * 2),
                with_shapes(lambda n, m: (torch.randn(n, m), torch.randint(0, n, (n, m)))), [1]),
    "out": (lambda x: torch.add(x, 1, out=torch.empty_like(x)) * 2, with_shapes(lambda n, m: (torch.randn(n, m),)), [1]),
    "autocast": (autocast, with_shapes(lambda n, m: (torch.randn(n, m), torch.randn(9, m))), [1]),
    "cond": (lambda x: torch.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, (x,)),
             [(sign * torch.ones(shape),) for shape in SHAPES for sign in (1, -1)], [1, 1]),
    "while": (loop, with_shapes(lambda n, m: (torch.randn(n, m),)), [1]),
    "vmap": (lambda x: torch.vmap(lambda row: (row * row).sum())(x), with_shapes(lambda n, m: (torch.randn(n, m),)), [1]),
    "checkpoint": (lambda x: checkpoint(lambda y: torch.relu(y) * y, x, use_reentrant=False),
                   with_shapes(lambda n, m: (torch.randn(n, m),)), [1]),
    "dropout": (lambda x: F.dropout(x * 2, 0.5) + 1, with_shapes(lambda n, m: (torch.randn(n, m),)), [1]),
    "random": (lambda x: x + torch.rand_like(x) + torch.randn(x.shape[0], 1), with_shapes(lambda n, m: (torch.randn(n, m),)), [1]),
    "convolution": (lambda x, w: F.relu(F.conv2d(x, w, padding=1)) + 1,
                    with_shapes(lambda n, m: (torch.randn(n, 3, m + 4, 9), torch.randn(4, 3, 3, 3))), [1]),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2) * 2, with_shapes(lambda n, m: (torch.randn(n, 3, m, 9),)), [1]),
    "einsum": (lambda x, y: torch.einsum("bij,bjk->bik", x, y) + 1,
               with_shapes(lambda n, m: (torch.randn(n, m, 6), torch.randn(n, 6, m))), [1]),
    "spectrum": (lambda x: torch.fft.rfft(x).abs() * 2, with_shapes(lambda n, m: (torch.randn(n, m),)), [1]),
    "remainder": (lambda x: torch.remainder(x, 3) + torch.fmod(x, 2), with_shapes(lambda n, m: (torch.randn(n, m),)), [1]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    function, calls, recordings = PROGRAMS[name]
    compiled = torch.compile(function, backend="escapement")
    with torch.no_grad():
        for arguments in calls:
            torch.manual_seed(0)
            expected = function(*arguments)
            torch.manual_seed(0)
            torch.testing.assert_close(compiled(*arguments), expected)
    counted = escapement.stats()["dynamo"]
    regions = [region.info() for function in LEDGER.functions() for region in function.regions()]
    assert (counted["compiles"], counted["graph_breaks"], counted["fallbacks"]) == (len(recordings), 0, {}), counted
    graphs = [region for region in regions if not region["name"].endswith(" body")]
    assert [region["recordings"] for region in graphs] == recordings, regions
    assert all(region["recordings"] == 1 for region in regions), regions
    assert not any(region["fallbacks"] for region in regions), regions
