"""How often a tensor was written (`_version`) in replay mode: as in eager, whether the write was matched or recorded, and whatever name of the tensor
it went through. Autograd compares these numbers, so one that is too small is a gradient of other values."""

import pytest
import torch

import escapement
from harness import seeded

NUMBERS = [3, 5, 7.5, 2, -1, 0.25, 9, 3]


def result_is_written(x, n):
    y = x.clone()
    y.fill_(n)
    return (y,)


def view_is_written(x, n):
    y = x + 1
    row = y[0:1]
    row.mul_(n)
    y.t().add_(n)
    return y, row


def another_name_is_written(x, n):
    y = x + 1
    z = y.detach()
    z.fill_(n)
    y.view(-1).detach().add_(n)
    return y, z


def view_of_a_view_is_written(x, n):
    y = (x + 1).t()
    z = y.view(y.shape)
    z.fill_(n)
    z.view(z.shape).add_(1)
    return y, z


def item_is_set(x, n):
    y = x * 2
    y[0] = n
    return (y,)


def argument_is_written(x, n):
    x.view(-1).add_(n)
    x[0:1] = n
    x.reshape(-1).mul_(n)
    x.detach().add_(1)
    return (x,)


def lists_are_written(x, n):
    made = [x + 1, x + 2]
    torch._foreach_add_(made, n)
    return tuple(made)


PROGRAMS = [result_is_written, view_is_written, another_name_is_written, view_of_a_view_is_written, item_is_set, argument_is_written, lists_are_written]


@pytest.mark.parametrize("options", [{}, {"max_recordings": 0}], ids=["compiled", "operator by operator"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_many_writes_as_in_eager(program, options):
    ours = escapement.jit(program, mode="replay", **options)
    for size in (3, 5):
        for number in NUMBERS:
            x = torch.randn(size, 4, generator=seeded((size,)))
            z = x.clone()
            mine, theirs = ours(x, number), program(z, number)
            for a, b in zip(mine, theirs, strict=True):
                assert torch.allclose(a, b), (number, a, b)
                assert a._version == b._version, (size, number, ours.text())
            assert x._version == z._version, (size, number)


class Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, n):
        y = x.clone()
        ctx.save_for_backward(y)
        Kept.last = y
        return y * n

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0], None


def test_what_is_saved_and_then_written_is_refused():
    """With a number that was not seen before the write is recorded, behind operators that were matched."""

    def program(x, n):
        w = torch.ones(x.shape[1], requires_grad=True)
        z = Kept.apply(w, n)
        Kept.last.fill_(n)
        z.sum().backward()
        return w.grad

    ours = escapement.jit(program, mode="replay")
    for number in NUMBERS:
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            ours(torch.randn(2, 3), number)
