"""Strides of tensors without elements, which a program can ask for: those that eager makes, whatever the sizes and strides of the first call were.
To ATen such a tensor is contiguous with any strides; an operation of one and a number sorts its axes by them all the same.
"""

import itertools

import pytest
import torch
import torch.nn.functional as F

import escapement

LAYOUTS = {
    "contiguous": lambda n, m, k: torch.zeros(n, m, k),
    "transposed": lambda n, m, k: torch.zeros(n, k, m).mT,
    "permuted": lambda n, m, k: torch.zeros(k, n, m).permute(1, 2, 0),
    "stepped": lambda n, m, k: torch.zeros(n, m, 2 * k)[..., ::2],
    "parts": lambda n, m, k: torch.zeros(n + 2, m + 1, k + 3)[1:n + 1, :m, 2:k + 2],
    "strange": lambda n, m, k: torch.empty_strided((n, m, k), (3, 5, 2)).zero_(),
}
OPERATORS = {
    "number": lambda x: x + 1, "number first": lambda x: 2 - x, "two numbers": lambda x: (x + 1) * 2, "three": lambda x: ((x * 3) + 1) / 2,
    "of one shape": lambda x: x + x, "relu": torch.relu, "then a number": lambda x: torch.relu(x) + 1, "number, then one shape": lambda x: torch.relu(x + 1),
    "compared": lambda x: x > 0, "clamped": lambda x: x.clamp(min=0), "lerp": lambda x: x.lerp(x, 0.5), "masked": lambda x: x.masked_fill(x > 0, 0.0),
    "cast": lambda x: (x + 1).to(torch.float64), "clone": lambda x: x.clone(), "powers": lambda x: x ** 2, "gelu": F.gelu,
    "turned": lambda x: x.mT, "turned, then a number": lambda x: x.mT + 1, "permuted": lambda x: x.permute(2, 0, 1), "part": lambda x: x[:, 1:], "picked": lambda x: x.select(1, 0) if x.shape[1] else x,
    "number of a part": lambda x: x[:, 1:] * 2, "number of a picked": lambda x: x.select(1, 0) * 2 if x.shape[1] else x, "floor division": lambda x: x.mT.floor_divide(2),
    "a library's": lambda x: x.double().mT.floor_divide(2), "new axis": lambda x: x.unsqueeze(1), "last axis": lambda x: x.unsqueeze(-1), "new axis, then a number": lambda x: x[:, None] + 1,
    "windows": lambda x: x.unsqueeze(-1).unfold(1, 1, 2) if x.shape[1] else x, "every second": lambda x: x[:, ::2], "every second, then a number": lambda x: x.mT[::2] * 2,
    "expanded": lambda x: x.unsqueeze(0).expand(2, -1, -1, -1), "expanded, then a number": lambda x: x[:, None].expand(-1, 3, -1, -1) + 1, "reshaped": lambda x: x.reshape(x.shape[0], -1) if x.numel() else x,
    "reshaped, then a number": lambda x: (x * 2).reshape(x.shape[0], x.shape[1] * x.shape[2]) * 2, "turned twice": lambda x: x.mT[1:].mT + 1,
}
SIZES = [sizes for sizes in itertools.product((0, 1, 2, 3), repeat=3) if 0 in sizes and sizes.count(3) < 2]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", OPERATORS)
def test_strides_are_eagers(name, layout):
    def program(x):
        y = OPERATORS[name](x)
        return y, y.stride()

    for first in ((2, 3, 4), (0, 0, 0), (1, 0, 1)):
        returned, asked = escapement.jit(OPERATORS[name]), escapement.jit(program)
        for sizes in (first, *SIZES, (5, 7, 11)):
            x = LAYOUTS[layout](*sizes)
            expected = OPERATORS[name](x)
            y, strides = asked(x)
            assert strides == expected.stride(), (first, sizes, x.stride())
            for ours in (returned(x), y) if expected.numel() == 0 else ():
                assert ours.stride() == expected.stride(), (first, sizes, x.stride())
        counted = returned.info()
        assert counted["recordings"] <= 3 and not counted["eager"], (first, counted["recordings"], counted["eager"])
