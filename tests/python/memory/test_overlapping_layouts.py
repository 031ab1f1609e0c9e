"""What is computed from views whose elements overlap (windows, as_strided): ATen orders the result's axes by strides, and axes of one stride
by their sizes. At lengths at which that order differs, each first once."""

import pytest
import torch

from answered import Counted

VIEWS = {
    "windows of 3": lambda d: d.unfold(-1, 3, 1), "windows of 2": lambda d: d.unfold(-1, 2, 1), "windows by 2": lambda d: d.unfold(-1, 3, 2),
    "windows, transposed": lambda d: d.unfold(-1, 3, 1).mT, "strided": lambda d: d.as_strided((2, d.shape[1] - 1), (1, 1)),
    "strided, upright": lambda d: d.as_strided((d.shape[1] - 1, 2), (1, 1)), "rows": lambda d: d.unfold(0, 1, 1),
}
OPERATORS = {
    "sigmoid": lambda u: u.sigmoid(), "add": lambda u: u + 1, "double": lambda u: u.double(), "where": lambda u: torch.where(u > 0, u, -u),
    "sum": lambda u: (u * 2).sum(-1), "clone": lambda u: u.clone(), "zeros_like": lambda u: torch.zeros_like(u), "relu": lambda u: torch.relu(u),
    "floor_divide": lambda u: u.floor_divide(2), "fmod": lambda u: torch.fmod(u, 2), "sort": lambda u: u.sort(-1)[0], "neg": lambda u: -u,
    "cat": lambda u: torch.cat([u, u]), "contiguous": lambda u: u.contiguous(), "lerp": lambda u: torch.lerp(u, u * 2, 0.5),
}


@pytest.mark.parametrize("lengths", [(5, 4, 7, 3, 6, 5), (4, 7, 3, 5, 6), (3, 4, 9, 5)], ids=str)
@pytest.mark.parametrize("view", VIEWS)
def test_layouts_are_eagers(view, lengths):
    with torch.no_grad():
        for name, operator in OPERATORS.items():
            def function(d):
                return operator(VIEWS[view](d))

            compiled = Counted(function)
            for length in compiled.twice(lengths):
                for rows in (1, 2, 3):
                    d = torch.randint(-4, 5, (rows, length)).float()
                    wanted, found = function(d), compiled(d)
                    assert torch.allclose(wanted, found), (name, rows, length)
                    seen = [(a, b) for size, a, b in zip(wanted.shape, wanted.stride(), found.stride()) if size != 1 and wanted.numel()]
                    assert all(a == b for a, b in seen), (name, rows, length, wanted.stride(), found.stride())
            compiled.expect()
