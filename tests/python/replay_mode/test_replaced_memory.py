"""`x.data = y` is no operator. What is pending in replay mode was to read what `x` held before, and what comes afterwards reads what it holds then."""

import pytest
import torch

import escapement
from harness import assert_same_form, seeded

SHAPES = [(3, 4), (5, 7), (1, 5), (4, 1), (0, 4), (3, 0), (3, 4)]


def read_before_and_after(x, z):
    y = x + 1
    x.data = z
    return y, x.sum(), x * 2


def exchanged(x, z):
    y = x.exp() + z
    x.data = z.data
    w = x * 2
    z.data = y.data
    return y, w, z + 0


def averaged(x, z):
    """An average of weights as it is often written."""
    with torch.no_grad():
        before = z.mul(2)
        z.data = z.data * 0.5 + x.data * 0.5
        x.data = z.data
        return before, x + z


def cut(x, z):
    y = x * 3
    x.data = x.data[:1]
    return y, x + 1


def of_another_rank(x, z):
    y = x + z
    x.data = z.reshape(-1)[:2]
    return y, x + 1


def of_a_view(x, z):
    row = x[0:1]
    y = row * 2
    row.data = z[0:1]
    return y, row + 1, x + 1


PROGRAMS = [read_before_and_after, exchanged, averaged, cut, of_another_rank, of_a_view]


@pytest.mark.parametrize("options", [{}, {"max_recordings": 0}], ids=["compiled", "operator by operator"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_eager(program, options):
    ours = escapement.jit(program, mode="replay", **options)
    before = escapement.stats()
    for shape in SHAPES:
        x, z = (torch.randn(shape, generator=seeded((*shape, n))) for n in range(2))
        a, b = x.clone(), z.clone()
        for mine, other in zip((*ours(x, z), x, z), (*program(a, b), a, b), strict=True):
            assert_same_form(mine, other)
            assert torch.allclose(mine, other, rtol=1e-6, atol=1e-6), (shape, mine, other)
        assert (x.data_ptr() == z.data_ptr()) == (a.data_ptr() == b.data_ptr())
    after = escapement.stats()
    kind = "eager_segments" if options else "launches"
    assert after[kind] > before.get(kind, 0), ours.text()
