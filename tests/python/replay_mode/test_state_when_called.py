"""An operator that runs late in replay mode means what it meant when the program called it: torch's default dtype, and whether gradients are kept,
are those of then, also where its segment ends behind the program's next change of them."""

import pytest
import torch

import escapement
from harness import assert_same_form

SIZES = [(2, 3), (2, 5), (2, 1), (2, 0), (1, 1), (2, 7), (2, 3)]
OPTIONS = {"compiled": {}, "operator by operator": {"max_recordings": 0}}


def assert_same(ours, theirs):
    for mine, other in zip(ours, theirs, strict=True):
        assert_same_form(mine, other)
        assert torch.equal(mine, other), (mine, other)


def with_another_dtype(x):
    made, product = torch.ones(x.shape[0], 3), (x.int() + 3) * 2.5
    torch.set_default_dtype(torch.float64)
    try:
        later = torch.ones(2) + 1
    finally:
        torch.set_default_dtype(torch.float32)
    return made, product, later


def back_from_another_dtype(x):
    torch.set_default_dtype(torch.float64)
    try:
        made, product = torch.ones(x.shape[0], 3), (x.int() + 3) * 2.5
    finally:
        torch.set_default_dtype(torch.float32)
    return made, product


def left_at_the_end(x):
    """The function's own end is behind the change."""
    product = (x.int() + 3).t() * 2.5
    torch.set_default_dtype(torch.float64)
    return (product,)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("program", [with_another_dtype, back_from_another_dtype, left_at_the_end])
def test_default_dtype(program, options):
    ours = escapement.jit(program, mode="replay", **options)
    before = escapement.stats()
    for shape in SIZES:
        x = torch.arange(shape[0] * shape[1], dtype=torch.float32).view(shape)
        try:
            theirs = program(x)
            torch.set_default_dtype(torch.float32)
            mine = ours(x)
        finally:
            torch.set_default_dtype(torch.float32)
        assert_same(mine, theirs)
    after = escapement.stats()
    kind = "eager_segments" if options else "launches"
    assert after[kind] > before.get(kind, 0), ours.text()


def parts_are_written(p):
    with torch.no_grad():
        y = p * 2
        a, b = y.unbind(0) if y.shape[0] == 2 else (y, y)
        a.mul_(3)
        b.add_(a.view(b.shape))
    return (y,)


def views_are_written(p):
    with torch.no_grad():
        y = p * 2
        y.view(-1).mul_(3)
        first = y.split(1)[0]
        first.add_(1)
        z = p.detach().view(-1) * 2
    return y, z, first


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("program", [parts_are_written, views_are_written])
def test_gradients_are_not_kept(program, options):
    ours = escapement.jit(program, mode="replay", **options)
    before = escapement.stats()
    for shape in SIZES:
        p = torch.arange(shape[0] * shape[1], dtype=torch.float32).view(shape).requires_grad_()
        assert_same(ours(p), program(p))
    after = escapement.stats()
    kind = "eager_segments" if options else "launches"
    assert after[kind] > before.get(kind, 0), ours.text()
