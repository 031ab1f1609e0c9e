"""Operators that give back their argument's memory at some sizes and a copy at others: contiguous() of a slice that may be the whole, reshape of a
transposed matrix that may be square. Values after a write, strides, and which of argument and result share memory are eager's at all sizes."""
import pytest
import torch

import escapement

pytestmark = pytest.mark.usefixtures("fresh")

RESULTS = {
    "contiguous of a slice": lambda x, k: x[:, :k].contiguous(),
    "contiguous of every k-th": lambda x, k: x[:, ::k].contiguous(),
    "contiguous of a transpose": lambda x, k: x.t().contiguous(),
    "contiguous of narrowed rows": lambda x, k: x.t()[:k].t().contiguous(),
    "contiguous of an own slice": lambda x, k: (x * 1)[:, :k].contiguous(),
    "flat slice": lambda x, k: x[:, :k].reshape(-1),
    "flattened slice": lambda x, k: x[:, :k].flatten(),
    "slice as a row": lambda x, k: x[:, :k].reshape(1, -1),
    "slice in its own sizes": lambda x, k: x[:, :k].reshape(x.shape[0], -1),
    "expanded": lambda x, k: x.expand(k, *x.shape).reshape(-1),
    "transposed sizes": lambda x, k: x.t().reshape(x.shape[0], x.shape[1]),
    "transposed sizes of another": lambda x, k: x.t().reshape_as(x),
    "transpose in its own sizes": lambda x, k: x.t().reshape(x.shape[1], x.shape[0]),
    "transposed pairs": lambda x, k: x.view(x.shape[0], -1, 1).transpose(0, 1).reshape(x.shape[1], x.shape[0]),
    "three axes to two": lambda x, k: x[:, :k].unsqueeze(0).transpose(0, 1).reshape(x.shape[0], -1),
    "windows": lambda x, k: x.unfold(0, 2, k).reshape(-1),
    "ravelled transpose": lambda x, k: x.t().ravel(),
    "to another layout": lambda x, k: x[:, :k].to(torch.float32, memory_format=torch.contiguous_format),
}
SIZES = ((4, 6, 3), (4, 6, 6), (5, 7, 2), (5, 3, 9), (3, 8, 8), (1, 4, 2), (4, 1, 1), (6, 6, 6), (5, 5, 3), (2, 2, 2), (7, 4, 1), (3, 4, 1), (0, 5, 5), (5, 0, 3),
         (13, 11, 7), (11, 11, 11))


def returned(name):
    return lambda x, k: RESULTS[name](x, k)


def result_written(name):
    def program(x, k):
        y = RESULTS[name](x, k)
        y.mul_(2)
        return x + 1
    return program


def argument_written(name):
    def program(x, k):
        y = RESULTS[name](x, k)
        x.add_(1)
        return y * 2
    return program


def both_returned(name):
    def program(x, k):
        z = x * 2
        return z, RESULTS[name](z, k)
    return program


def share(tensors):
    full = [t for t in tensors if t.numel() > 0]
    return [a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() for a in full for b in full]


def strides(t):
    return [stride for size, stride in zip(t.shape, t.stride()) if size > 1 and t.numel() > 0]


def outcome(run, rows, columns, k):
    x = torch.arange(1.0, rows * columns + 1).reshape(rows, columns)
    try:
        found = run(x, k)
    except RuntimeError:
        return "refused", x.tolist()
    tensors = [x, *(found if isinstance(found, tuple) else (found,))]
    return [(t.shape, strides(t), t.tolist()) for t in tensors], share(tensors)


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("what", [returned, result_written, argument_written, both_returned])
@pytest.mark.parametrize("name", RESULTS)
def test_memory_is_shared_where_eager_shares_it(name, what, mode):
    program = what(name)
    for first in (0, 1, 8):   # the layout that is seen first decides nothing
        run = escapement.jit(program, mode=mode)
        for rows, columns, k in SIZES[first:] + SIZES[:first]:
            if k > 0 and rows > 0:
                assert outcome(run, rows, columns, k) == outcome(program, rows, columns, k), (first, rows, columns, k)


@pytest.mark.parametrize("name", ["contiguous of a slice", "flat slice", "transposed sizes"])
def test_one_recording_serves_where_eager_always_copies(name):
    program = result_written(name)
    run = escapement.jit(program)
    for rows, columns, k in ((4, 6, 3), (5, 7, 2), (3, 8, 5), (13, 11, 7)):
        assert outcome(run, rows, columns, k) == outcome(program, rows, columns, k)
    assert run.info()["recordings"] == 1


@pytest.mark.parametrize("way", ("call", "replay", "torch.compile"))
@pytest.mark.parametrize("write", (lambda y: y.add_(1), lambda y: y.mul_(2).sin_(), lambda y: (y * 2, torch.sort(y, out=(y, torch.empty(0, dtype=torch.int64)))[0] + y)[1]), ids=("kernel", "two", "library"))
def test_a_copy_that_is_made_when_it_is_written(write, way):
    """Until then it has the memory of what it is a copy of."""
    def function(y):
        write(y)
        return y + 1

    torch._dynamo.reset()
    ours = torch.compile(function, backend="escapement") if way == "torch.compile" else escapement.jit(function, mode=way)
    for n in (3, 4, 5, 1, 7):
        x, expected = torch.linspace(1, 0, n), torch.linspace(1, 0, n)
        y = torch._lazy_clone(x)
        torch.testing.assert_close(ours(y), function(expected))
        torch.testing.assert_close((x, y), (torch.linspace(1, 0, n), expected))
