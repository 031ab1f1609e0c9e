"""Operands whose elements lie apart, of sizes 0, 1, primes and more than a block: as eager, in kernels, whichever way a kernel walks them."""

import pytest
import torch
import torch.nn.functional as F
import escapement
from harness import assert_exact, assert_near_fp64, compiled


def every_second(x):
    return torch.stack([x, x], -1).flatten(-2)[..., ::2]


LAYOUTS = {
    "every second": every_second, "transposed": lambda x: x.transpose(-1, -2).contiguous().transpose(-1, -2), "every third": lambda x: torch.stack([x, x, x], -1).flatten(-2)[..., ::3],
    "expanded": lambda x: x[:1].expand(x.shape), "reversed": lambda x: x.permute(*range(x.dim())[::-1]).contiguous().permute(*range(x.dim())[::-1]),
    "across": lambda x: every_second(x.transpose(0, -1)).transpose(0, -1), "behind": lambda x: torch.cat([x[:1], x])[1:],
}
SHAPES = [(5, 3, 67), (0, 3, 5), (1, 1, 1), (3, 257, 2), (70, 31, 7), (3, 2, 300), (2, 40, 32), (13, 1, 48)]
SHORT_ROWS = {
    "sum of windows": lambda x: F.pad(x, (0, 2)).unfold(-1, 3, 1).sum(-1), "sum of the middle": lambda x: x.sum(1), "sum of the first": lambda x: x.sum(0),
    "softmax of the middle": lambda x: torch.softmax(x, 1), "log_softmax of the first": lambda x: torch.log_softmax(x, 0), "mean of the last": lambda x: (x * 2).mean(-1),
    "normed": lambda x: x - x.mean(1, keepdim=True),
}
EXACT = {
    "copied": lambda x: x.contiguous(), "one and other": lambda x: x * x.contiguous(), "rows by number": lambda x: x[torch.arange(x.shape[0] - 1, -1, -1)], "triangle": lambda x: x.tril(),
    "first of windows": lambda x: F.pad(x, (0, 2)).unfold(-1, 3, 2).amax(-1), "places": lambda x: x.argmax(1), "in place": lambda x: x.clone().mul_(2).add_(x),
    "with one a row": lambda x: x + x[..., :1], "chosen": lambda x: x.gather(0, (x > 0).long() * (x.shape[0] - 1)), "swapped": lambda x: x.transpose(0, 2).contiguous(),
}


def operands(dtype):
    torch.manual_seed(0)
    for shape in SHAPES:
        plain = torch.randn(shape) * 5
        yield from (make(plain.to(dtype)) for make in LAYOUTS.values())


@pytest.mark.parametrize("name", SHORT_ROWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_short_rows(name, dtype):
    call, before = compiled(SHORT_ROWS[name], 1, max_recordings=100), escapement.stats().get("launches", 0)
    for x in operands(dtype):
        assert_near_fp64(call(x), SHORT_ROWS[name](x), SHORT_ROWS[name](x.double()), floor_ulp=4)
    assert escapement.stats()["launches"] > before


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8], ids=str)
def test_exact(name, dtype):
    call, before = compiled(EXACT[name], 1, max_recordings=100), escapement.stats().get("launches", 0)
    for x in operands(dtype):
        assert_exact(call(x), EXACT[name](x), signed_zeros=False)
    assert escapement.stats()["launches"] > before


@pytest.mark.parametrize("ask", [torch.equal, torch.allclose, lambda x, y: bool((x == y).all()), lambda x, y: bool((x != y).any())])
def test_truth_values_of_long_tensors(ask):
    """However early the answer is known."""
    call = escapement.jit(lambda x, y: x + 1 if ask(x, y) else y - 1, strict=True)
    for size in (1, 7, 1024, 1025, 5000, 0):
        x = torch.randn(3, size)
        for place in (None, 0, size // 2, size - 1):
            y = x.clone()
            if place is not None and size:
                y[1, place] += 1
            for a, b in ((x, y), (every_second(x), y), (x.t(), y.t())):
                assert_exact(call(a, b), a + 1 if ask(a, b) else b - 1)


def test_allclose_takes_its_tolerances():
    x = torch.tensor([1.0, float("nan"), float("inf"), -2.0])
    for tolerances in ((), (1e-1,), (0.0, 1e-5), (1e-2, 1e-8, True)):
        def program(x, y, tolerances=tolerances):
            return x * 2 if torch.allclose(x, y, *tolerances) else y * 3

        call = escapement.jit(program, strict=True)
        for a in (x, x[2:], x[3:], x.nan_to_num()):
            for b in (a, a + 1e-6, a * 1.01, a.abs(), a.to(torch.float32)):
                assert_exact(call(a, b), program(a, b))


def test_a_result_may_stand_where_an_operand_stood():
    """Short rows in lines that blocks do not fill, of a product that nobody needs any more."""
    def program(q, mask):
        return torch.softmax(q @ q.transpose(-1, -2) * 0.3 + mask, -1) @ q

    call = compiled(program, 2)
    for batch, heads, length in ((2, 5, 37), (3, 4, 45), (5, 2, 29), (2, 7, 48), (1, 9, 33)):
        q, mask = torch.randn(batch, heads, length, 8), torch.randn(batch, 1, 1, length)
        assert_near_fp64(call(q, mask), program(q, mask), program(q.double(), mask.double()), factor=3, floor_ulp=8)
