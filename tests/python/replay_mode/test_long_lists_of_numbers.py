"""Operators that name thousands of integers, more than the table of a segment holds: they end it, or run as they are."""

import pytest
import torch

import escapement

PROGRAMS = {
    "one operator": lambda x: [part * 2 for part in x.split([1] * x.shape[0])][::499],
    "two": lambda x: [*(x * 2).split([1] * (x.shape[0] // 2) + [x.shape[0] - x.shape[0] // 2])[::499], *(x + 1).split([1] * (x.shape[0] - 1) + [1])[::499]],
    "many": lambda x: [(x + n).split([1] * (x.shape[0] // 3) + [x.shape[0] - x.shape[0] // 3])[0] for n in range(5)],
    "a sum after each": lambda x: [sum(part.sum() for part in (x * n).split([x.shape[0] // 4] * 4 + [x.shape[0] % 4])) for n in range(4)],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_long_lists(name):
    compiled = escapement.jit(PROGRAMS[name], mode="replay")
    for rows in (2100, 4100, 3, 5000, 1021, 2100):
        x = torch.arange(float(rows))
        for ours, eager in zip(compiled(x), PROGRAMS[name](x), strict=True):
            torch.testing.assert_close(ours, eager)
