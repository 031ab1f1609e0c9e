"""Axes of one stride, of windows that overlap: ATen orders them by their sizes, so the layout of a result depends on which is longer."""

import itertools

import pytest
import torch

import escapement

WINDOWS = ((6, 3), (2, 3), (3, 3), (3, 2), (1, 3), (3, 1))
PROGRAMS = {
    "map": lambda x: x.exp(), "number": lambda x: x * 2, "transposed": lambda x: x.t() + 1, "with a row": lambda x: x + x[0], "with another order": lambda x: x + x.clone().t().contiguous().t(),
    "chain": lambda x: (x * 2).sigmoid() - 1, "reduced": lambda x: (x + 1).sum(0), "cloned": lambda x: x.clone(), "cast": lambda x: x.double(),
    "compared": lambda x: x > 0, "where": lambda x: torch.where(x > 0, x, 1.0),
}
INSIDE = {"unfold": lambda x: x.unfold(0, 3, 1).exp(), "of a sum": lambda x: (x + 1).unfold(0, 3, 1) * 2, "transposed": lambda x: x.unfold(0, 2, 1).t() + 1}


def windows(count, length):
    return torch.arange(count + length - 1.0).unfold(0, length, 1)


def strides(x):
    """Of the axes that address anything."""
    return [stride for stride, size in zip(x.stride(), x.shape) if size > 1]


def same(ours, theirs):
    return strides(ours) == strides(theirs) and ours.dtype == theirs.dtype and torch.allclose(ours, theirs)


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_arguments_whose_axes_have_one_stride(name, mode):
    fn = PROGRAMS[name]
    for first, second in itertools.permutations(WINDOWS, 2):
        jitted = escapement.jit(fn, mode=mode)
        for shape in (first, second, *WINDOWS):
            assert same(jitted(windows(*shape)), fn(windows(*shape))), (first, second, shape)


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("name", INSIDE)
def test_windows_made_inside(name, mode):
    fn = INSIDE[name]
    for first in (8, 4, 5, 3, 6):
        jitted = escapement.jit(fn, mode=mode)
        for n in (first, 4, 5, 9, 3, 4, 12):
            assert same(jitted(torch.arange(float(n))), fn(torch.arange(float(n)))), (first, n)


@pytest.mark.parametrize("mode", ["call", "replay"])
def test_strides_that_differ_are_another_version(mode):
    jitted = escapement.jit(PROGRAMS["map"], mode=mode)
    memory = torch.arange(400.0)
    for sizes, strides in itertools.product(((4, 3), (3, 4), (2, 9), (5, 1)), ((1, 1), (2, 1), (1, 2), (3, 3), (7, 3), (3, 7), (0, 1), (1, 0))):
        x = memory.as_strided(sizes, strides)
        assert same(jitted(x), x.exp()), (sizes, strides)
