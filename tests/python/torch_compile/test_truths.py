"""A truth about sizes as an argument: a guard, which is one compile for each answer, and no graph break."""

import pytest
import torch
import torch.nn.functional as F

from escapement.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh")

PROGRAMS = {
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=x.shape[2] > 4),
    "attention by place": lambda x: F.scaled_dot_product_attention(x, x, x, None, 0.0, x.shape[2] > 4),
    "keepdim": lambda x: x.sum(-1, keepdim=x.shape[2] > 4),
    "keepdim of a function": lambda x: torch.amax(x, -1, keepdim=x.shape[2] > 4),
    "keepdim by place": lambda x: x.mean(-1, x.shape[2] > 4),
    "dropout": lambda x: F.dropout(x, 0.5, training=x.shape[2] > 40),
    "dropout by place": lambda x: F.dropout(x, 0.5, x.shape[2] > 40),
    "sort": lambda x: torch.sort(x, descending=x.shape[2] > 4)[0],
    "interpolate": lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=x.shape[2] > 4),
    "std": lambda x: x.std(-1, unbiased=x.shape[2] > 4),
    "topk": lambda x: x.topk(1, largest=x.shape[2] > 4)[0],
    "copy": lambda x: x.to(torch.float64, copy=x.shape[2] > 4),
    "batch_norm": lambda x: F.batch_norm(x, torch.zeros(3), torch.ones(3), training=x.shape[2] > 4),
    "pool": lambda x: F.avg_pool2d(x, 1, ceil_mode=x.shape[2] > 4),
    "cumulative": lambda x: torch.isin(x, torch.zeros(1), invert=x.shape[2] > 4),
    "item of a list": lambda x: x * [1.0, 2.0][x.shape[2] > 4],
    "item of a tuple": lambda x: x * (1.0, 2.0)[x.shape[2] > 4],
    "item of a dict": lambda x: x * {True: 2.0, False: 3.0}[x.shape[2] > 4],
    "index": lambda x: x[x.shape[2] > 4],
    "negative": lambda x: x * (-(x.shape[2] > 4)),
    "inverted": lambda x: x * (~(x.shape[2] > 4) + 3),
    "exclusive or": lambda x: x * ((x.shape[2] > 4) ^ (x.shape[0] > 1)),
    "quotient": lambda x: x * ((x.shape[2] > 4) / 2),
    "maximum": lambda x: x * max(x.shape[2] > 4, 0.5),
    "grad mode": lambda x: with_grad_mode(x),
    # As numbers, which they are too: no guard.
    "product": lambda x: x * (x.shape[2] > 4),
    "sum": lambda x: x + (x.shape[2] > 4),
    "filled": lambda x: x.masked_fill(x > 0, x.shape[2] > 4),
    "tensor": lambda x: torch.tensor(x.shape[2] > 4) & (x > 0),
    "full": lambda x: torch.full((2,), x.shape[2] > 4),
}


def with_grad_mode(x):
    with torch.set_grad_enabled(x.shape[2] > 4):
        return x * 2


@pytest.mark.parametrize("sizes", [(5, 7, 3, 1, 2, 9), (1, 2, 5, 3, 11)], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_truth_is_a_guard(name, sizes):
    eager, compiled = PROGRAMS[name], torch.compile(PROGRAMS[name], backend="escapement")
    for size in sizes:
        x = torch.randn(2, 3, size, 8)
        torch.manual_seed(0)
        wanted = eager(x)
        torch.manual_seed(0)
        torch.testing.assert_close(compiled(x), wanted, rtol=1e-4, atol=1e-5, equal_nan=True)
    seen = LEDGER.counters()
    assert (seen["graph_breaks"], seen["refused_calls"], seen["skipped_frames"]) == (0, 0, 0)
    assert 1 <= seen["compiles"] <= 2


def test_of_a_truth_of_the_data_the_program_decides():
    def body(x):
        return x.sum(0, keepdim=x.sum().item() > 0), [1.0, 2.0][x.sum().item() > 0]

    compiled = torch.compile(body, backend="escapement")
    for size, sign in ((4, 1), (3, -1), (1, 1), (7, -1)):
        x = torch.full((size, 2), float(sign))
        torch.testing.assert_close(compiled(x), body(x))
