"""Programs with hundreds of results, as a trajectory has: kernels are of a size that is compiled in milliseconds (a kernel of 400 stores takes LLVM 16 s),
and what they store is right wherever they are cut."""

import re

import pytest
import torch

import escapement


def trajectory(x, steps):
    out = []
    for step in range(steps):
        x = x * 0.5 + step
        out.append(x)
    return out


def stacked(x, steps):
    return torch.stack(trajectory(x, steps))


def joined(x, steps):
    return torch.cat(trajectory(x, steps), -1).sum(0)


def written(x, steps):
    out = x.new_zeros(steps, *x.shape)
    for step in range(steps):
        x = x * 0.5 + step
        out[step] = x
    return out


def two_by_two(x, steps):
    return [x for pair in zip(trajectory(x, steps), trajectory(x + 1, steps)) for x in pair]


@pytest.mark.parametrize("steps", [31, 33, 100, 400])
@pytest.mark.parametrize("function", [trajectory, stacked, joined, written, two_by_two])
def test_as_eager(function, steps):
    jitted = escapement.jit(function)
    for shape in ((3, 5), (2, 1), (3, 5), (1, 7), (0, 2)):
        x = torch.randn(shape)
        torch.testing.assert_close(jitted(x, steps), function(x, steps))
    assert not jitted.info()["eager"]


def test_no_kernel_stores_more_than_compiles_quickly(capfd):
    jitted = escapement.jit(trajectory, dump="plan")
    for _ in range(2):
        jitted(torch.ones(2, 3), 100)
    text = capfd.readouterr()
    kernels = (text.out + text.err).split("\nkernel ")[1:]
    stores = [len(re.findall(r"^\s*store ", kernel, re.M)) for kernel in kernels]
    assert sum(stores) >= 100 and max(stores) <= 36, stores   # and what the next one begins with
