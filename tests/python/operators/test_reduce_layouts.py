"""Reductions and row programs over operands that lie across their rows, of sizes at which they are copied in many pieces: as exact as eager, in
kernels, and of the same bits on any number of threads."""

import itertools

import pytest
import torch
import torch.nn.functional as F
import escapement
from harness import assert_exact, assert_near_fp64, compiled

SHAPES = [(3, 70, 41, 19), (2, 5, 130, 67)]
ORDERS = [(0, 1, 3, 2), (0, 2, 3, 1), (0, 3, 1, 2), (3, 2, 1, 0), (2, 0, 3, 1)]   # the axes as they lie in memory, outermost first
PROGRAMS = {
    "sum_batch_and_plane": lambda x: x.sum((0, 2, 3)), "sum_two": lambda x: x.sum((1, 3)), "sum_all": lambda x: x.sum(),
    "mean_one": lambda x: x.mean(2), "var": lambda x: x.var((0, 2, 3)), "softmax": lambda x: torch.softmax(x, 1),
    "log_softmax": lambda x: torch.log_softmax(x, 3), "layer_norm": lambda x: F.layer_norm(x, x.shape[2:]),
    "row_in_place": lambda x: x.clone().sub_(x.mean(3, keepdim=True)),
}
EXACT = {
    "amax": lambda x: x.amax((0, 2)), "argmax": lambda x: x.argmax(1), "argmin_all": lambda x: x.argmin(), "any": lambda x: (x > 2).any(3),
}


def laid_out(shape, order, dtype):
    torch.manual_seed(sum(order[:2]))
    return torch.randn([shape[axis] for axis in order]).to(dtype).permute([order.index(axis) for axis in range(len(shape))])


def operands(dtype):
    for shape, order in itertools.product(SHAPES, ORDERS):
        yield laid_out(shape, order, dtype)
    yield laid_out(SHAPES[0], ORDERS[1], dtype)[:, :, 1:, ::2]   # neither dense nor adjacent


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_as_near_as_eager(name, dtype):
    function, double = PROGRAMS[name], torch.float64
    call = compiled(function, 1)
    for x in operands(dtype):
        assert_near_fp64(call(x), function(x), function(x.to(double)), floor_ulp=64 if dtype == double else 4)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.uint8], ids=str)
def test_exact(name, dtype):
    call = compiled(EXACT[name], 1)
    for x in operands(dtype):
        assert_exact(call(x), EXACT[name](x), signed_zeros=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_change_no_bit(name):
    call, threads = compiled(PROGRAMS[name], 1), torch.get_num_threads()
    try:
        for order in ORDERS:
            x, found = laid_out((4, 70, 61, 59), order, torch.float32), []
            call(x)
            for count in (1, 2, 3):
                torch.set_num_threads(count)
                found.append(call(x))
            assert_exact(found[1], found[0]), assert_exact(found[2], found[0])
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "var"])   # of one value, and of none, it warns
def test_one_recording_serves_every_size(name):
    call = compiled(PROGRAMS[name], 1)
    before = escapement.stats().get("launches", 0)
    for shape in [(3, 7, 13, 5), (1, 127, 2, 3), (2, 3, 1, 31), (5, 1, 1, 1), (2, 0, 3, 5), (1, 1, 7, 1), (13, 2, 17, 1)]:
        x = laid_out(shape, (0, 2, 3, 1), torch.float32).abs_()   # nothing cancels: what is tested is which sizes are served
        assert_near_fp64(call(x), PROGRAMS[name](x), PROGRAMS[name](x.double()), floor_ulp=4)
    assert call.info()["recordings"] == 1, call.info()["misses"]
    assert escapement.stats()["launches"] >= before + 6
