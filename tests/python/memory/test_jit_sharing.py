"""Copies that eager makes at some layouts and views at others: which of the two a result is, at every call of one function."""

import pytest
import torch

import escapement
from escapement.core import core

pytestmark = pytest.mark.skipif(not hasattr(core(), "Region"), reason="needs the compiled core")

DENSE, STEPPED, GAPS = (25, 5, 1), (50, 10, 2), (60, 10, 2)
CUBES = [((5, 5, 5), GAPS), ((5, 5, 5), STEPPED), ((5, 5, 5), DENSE), ((1, 5, 5), DENSE), ((5, 5, 1), GAPS), ((0, 5, 5), DENSE),
         ((5, 3, 5), (40, 10, 2)), ((7, 5, 5), GAPS), ((5, 5, 5), (70, 11, 2))]
MATRICES = [((5, 4), (1, 5)), ((2, 3), (1, 2)), ((2, 0), (1, 2)), ((0, 3), (1, 5)), ((5, 1), (1, 5)), ((1, 5), (1, 1)), ((5, 3), (3, 1)),
            ((7, 3), (1, 7)), ((3, 3), (0, 1))]
COPIES = {
    "contiguous": lambda x: x.contiguous(),
    "ravel": lambda x: x.ravel(),
    "reshape to a line": lambda x: x.reshape(-1),
    "reshape to rows": lambda x: x.reshape(x.shape[0], x.numel() // max(x.shape[0], 1)),
    "flatten": lambda x: x.flatten(-2),
    "transposed contiguous": lambda x: x.transpose(0, -1).contiguous(),
    "transposed reshape": lambda x: x.transpose(0, -1).reshape(-1),
}


def strided(sizes, strides):
    return torch.arange(1000.0).as_strided(sizes, strides)


def seen(function, x):
    """What a caller can tell of the result and its argument."""
    result = function(x)
    shared = result.numel() and result.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    strides = [stride for size, stride in zip(result.shape, result.stride()) if size > 1 and result.numel()]
    return result is x, bool(shared), strides, result.tolist(), x.tolist()


def written(copy):
    def function(x):
        y = copy(x)
        y.add_(1000)
        return y
    return function


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("name", COPIES)
def test_a_copy_or_a_view(name, first, mode):
    for make in (lambda copy: copy, written):
        function = make(COPIES[name])
        for layouts in (CUBES, MATRICES):
            jitted = escapement.jit(function, mode=mode)
            for sizes, strides in layouts[first:] + layouts[:first]:
                if make is written and 0 in strides:
                    continue   # elements that lie on each other are not written
                assert seen(jitted, strided(sizes, strides)) == seen(function, strided(sizes, strides)), (sizes, strides)


def test_one_recording_for_all_copies():
    """Of a layout whose strides are free; and no recording for empty tensors, which nobody can tell apart."""
    function = escapement.jit(lambda x: x.reshape(-1) * 2)
    for n in (5, 3, 7, 11):
        x = strided((n, 5, 5), (60, 11, 2))
        assert torch.equal(function(x), x.reshape(-1) * 2)
    assert function.info()["recordings"] == 1


def test_a_write_that_nobody_reads_leaves_other_results_alone():
    def program(x, w, v):
        a = x + 1
        b = a * w
        c = x * v
        c.copy_(a)       # made in the kernel that makes b, and c is not read again
        return b[2] * b

    jitted = escapement.jit(program)
    for n in (3, 5, 1, 0, 7):
        x, w, v = torch.randn(8, n), torch.randn(n), torch.randn(n)
        assert torch.equal(jitted(x, w, v), program(x, w, v)), n
    assert jitted.info()["recordings"] == 1
