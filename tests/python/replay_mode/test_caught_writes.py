"""Replay mode: a write to an argument that raises because of its sizes or dtypes, and is caught. What was read from that memory before is there
afterwards, though it was pending when the write came: such an error comes before anything is written."""

import pytest
import torch

import escapement

WRITES = {
    "copy": lambda a, b: a.copy_(b),
    "add": lambda a, b: a.add_(b),
    "mul": lambda a, b: a.mul_(b),
    "addcmul": lambda a, b: a.addcmul_(b, b),
    "where": lambda a, b: torch.where(a > 0, b, b, out=a),
    "masked_fill": lambda a, b: a.masked_fill_(b > 0, 1.0),
    "lerp": lambda a, b: a.lerp_(b, 0.5),
    "part": lambda a, b: a[:1].copy_(b.expand(2, -1)),
    "assigned": lambda a, b: a.__setitem__(slice(None), b),
    "floor_divide": lambda a, b: a.floor_divide_(b),
    "index_copy": lambda a, b: a.index_copy_(0, torch.zeros(1, dtype=torch.int64), b.expand(1, -1)),
    "index_add": lambda a, b: a.index_add_(0, torch.zeros(1, dtype=torch.int64), b.expand(1, -1)),
    "in a view": lambda a, b: a[None].add_(b.expand(2, *a.shape) if b.numel() == 1 else b),
    "scatter": lambda a, b: a.scatter_(0, torch.zeros(1, 9, dtype=torch.int64), b.expand(1, -1)),
}


REFUSED = {   # by the memory that they write: where it has elements
    "copy": lambda a: a.expand(2, *a.shape).copy_(a.sum()), "add": lambda a: a.expand(2, *a.shape).add_(a.sum()),
    "fill": lambda a: a.expand(2, *a.shape).fill_(float(a.numel())), "shifted": lambda a: a[1:].add_(a[:-1]), "out": lambda a: torch.add(a, 1, out=a.expand(2, *a.shape)),
}


@pytest.mark.parametrize("mode", ["replay", "call"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_stands_in_front_of_a_write_that_memory_refuses(name, mode):
    def program(a):
        view, read = a.expand(2, *a.shape), a.sum()
        try:
            REFUSED[name](a)
            raised = False
        except RuntimeError:
            raised = True
        return view, read, raised

    jitted = escapement.jit(program, mode=mode)
    for length in (0, 2, 0, 3, 1, 4, 0, 7):
        ours, eager = jitted(torch.arange(float(length))), program(torch.arange(float(length)))
        assert ours[2] == eager[2] and ours[0].shape == eager[0].shape and torch.equal(ours[0], eager[0]) and torch.equal(ours[1], eager[1]), length


@pytest.mark.parametrize("mode", ["replay", "call"])
@pytest.mark.parametrize("name", WRITES)
def test_what_was_read_before_is_there(name, mode):
    def program(a, b):
        read, view = a * 2 + 1, a.t()
        try:
            WRITES[name](a, b)
            raised = False
        except (RuntimeError, IndexError):
            raised = True
        return read - 1, view, raised

    jitted = escapement.jit(program, mode=mode)
    for rows, columns in ((2, 3), (2, 3), (3, 4), (1, 2), (2, 5), (2, 3), (0, 3), (1, 4)):
        for width in (columns, columns + 3, 1):
            arguments = [(torch.arange(1.0, rows * columns + 1).view(rows, columns), torch.full((width,), 2.0)) for _ in range(2)]
            ours, eager = jitted(*arguments[0]), program(*arguments[1])
            assert ours[2] == eager[2] and torch.equal(arguments[0][0], arguments[1][0]), (rows, columns, width)
            assert torch.equal(ours[0], eager[0]) and torch.equal(ours[1], eager[1]), (rows, columns, width)
