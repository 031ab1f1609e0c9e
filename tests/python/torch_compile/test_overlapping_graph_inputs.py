"""With gradients: a graph that writes an argument serves only calls whose arguments lie in memory as those that it was traced with."""

import pytest
import torch
import torch.nn.functional as F

import escapement
from escapement.core import core
from escapement.errors import CompileError


def base(n=6):
    return torch.arange(1.0, n + 1).reshape(n, 1).requires_grad_() * 2


# Each gives arguments of one shape, apart or overlapping in some way.
PLACES = {
    "apart": lambda z: (z, z.view(-1) * 1),
    "one": lambda z: (z, z.view(-1)),
    "shifted": lambda z: (z[:4], z.view(-1)[2:]),
    "halves": lambda z: (z[:3], z.view(-1)[3:]),
    "interleaved": lambda z: (z[0::2], z.view(-1)[1::2]),
    "nothing": lambda z: (z[:0], z.view(-1)[:0]),
}

PROGRAMS = {
    "second": lambda z, y: (y.mul_(3), z + 1, y),
    "first": lambda z, y: (z.mul_(3), z + 1, y * 2),
    "both": lambda z, y: (z.mul_(3), y.add_(1), z + 1, y * 2),
    "a view": lambda z, y: (y[1:].mul_(3), z + 1, y),
    "setitem": lambda z, y: (y.__setitem__(slice(0, 2), 5.0), z + 1, y * 2),
    "out": lambda z, y: (torch._foreach_add_([y], 1.0), z + 1, y * 2),
    "none": lambda z, y: (z + 1, y * 2),
}


def run(f, make):
    z = base()
    arguments = make(z)
    results = [result for result in f(*arguments) if isinstance(result, torch.Tensor)]
    return [*results, *arguments]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("first", PLACES)
def test_values_are_eagers(program, first):
    torch._dynamo.reset()
    f = PROGRAMS[program]
    compiled = torch.compile(f, backend="escapement")
    for place in (first, *PLACES, *reversed(PLACES)):
        try:
            expected = run(f, PLACES[place])
        except RuntimeError:   # eager, too, refuses some writes
            with pytest.raises(RuntimeError):
                run(compiled, PLACES[place])
            continue
        torch.testing.assert_close(run(compiled, PLACES[place]), expected, msg=lambda text, place=place: f"{place}: {text}")


def test_gradients_of_a_call_whose_arguments_overlap():
    def f(z, y):
        y.mul_(3)
        return (z * z).sum() + y.sum()

    torch._dynamo.reset()
    compiled = torch.compile(f, backend="escapement")
    for place in ("apart", "one", "halves", "shifted", "apart"):
        gradients = []
        for fn in (compiled, f):
            x = torch.arange(1.0, 7).reshape(6, 1).requires_grad_()
            fn(*PLACES[place](x * 2)).backward()
            gradients.append(x.grad)
        torch.testing.assert_close(*gradients)


def test_it_is_counted_and_strict_raises():
    def f(z, y):
        y.mul_(3)
        return z + 1

    torch._dynamo.reset()
    escapement.reset()
    compiled = torch.compile(f, backend="escapement")
    compiled(*PLACES["apart"](base()))
    with pytest.warns(RuntimeWarning, match="arguments_overlap"):
        compiled(*PLACES["one"](base()))
    compiled(*PLACES["apart"](base()))
    assert escapement.stats()["dynamo"]["fallbacks"] == {"arguments_overlap": 1}
    torch._dynamo.reset()
    compiled = torch.compile(f, backend="escapement", options={"strict": True})
    compiled(*PLACES["apart"](base()))
    with pytest.raises(CompileError, match="arguments_overlap"):
        compiled(*PLACES["one"](base()))


def test_a_graph_that_is_not_compiled_serves_no_other_calls():
    def f(z, y):
        y.mul_(3)
        return [z + 1]

    torch._dynamo.reset()
    escapement.reset()
    compiled = torch.compile(f, backend="escapement")
    for place in ("one", "apart", "apart", "one"):
        torch.testing.assert_close(run(compiled, PLACES[place]), run(f, PLACES[place]))
    counted = escapement.stats()["dynamo"]
    assert counted["fallbacks"] == {"arguments_overlap": 1} and counted["compiles"] == 2, counted


def test_arguments_apart_are_one_compile():
    def f(z, y):
        y.mul_(3)
        return (z + 1).sum() + y.sum()

    torch._dynamo.reset()
    escapement.reset()
    compiled = torch.compile(f, backend="escapement")
    for size in (6, 13, 2, 1, 17, 5, 0):
        counted = escapement.stats()
        z = torch.arange(1.0, size + 1).requires_grad_() * 2
        results = [fn(z, z * 1) for fn in (compiled, f)]
        torch.testing.assert_close(*results)
        results[0].backward()
    # But for the argument of nothing, whose strides are a version of their own.
    assert counted["dynamo"]["compiles"] == 1 and not counted["dynamo"]["specialised_dims"] and not counted["dynamo"]["fallbacks"], counted
    assert counted["recordings"] == 2 and counted["hits"] >= 8 and counted["launches"] > 0, counted   # forward and backward


def test_statistics_of_a_norm_are_written():
    """By an operator of which only AOTAutograd knows that it writes."""
    def f(x, mean, variance, other):
        return F.batch_norm(x, mean, variance, training=True), other + 1

    torch._dynamo.reset()
    compiled = torch.compile(f, backend="escapement")
    for overlapping in (False, True, False):
        results = []
        for fn in (compiled, f):
            x, mean, variance = torch.arange(12.0).reshape(4, 3).requires_grad_(), torch.zeros(3), torch.ones(3)
            results.append([*fn(x, mean, variance, mean.view(3) if overlapping else torch.zeros(3)), mean, variance])
        torch.testing.assert_close(*results)


def test_near():
    x, y = torch.arange(10.0), torch.arange(10.0)
    near = core().near
    assert near([x, y, x[:3], x[3:]], [0]) == [(0, 2), (0, 3)]
    assert near([x, y, x[:3], x[3:]], [2]) == [(2, 0), (2, 3)]
    assert near([x, 3, None, x[:0]], [0]) == [(0, 3)]
    assert near([x, y, torch.empty(0), torch.empty(0)], [0, 1, 2, 3]) == []
    assert near([x, x.to("meta"), x.to_sparse()], [0, 1, 2, 7]) == []
    assert near([], []) == []
    shared = x.numpy()
    assert near([torch.from_numpy(shared[:5]), torch.from_numpy(shared[5:]), torch.from_numpy(shared[4:6])], [2]) == [(2, 0), (2, 1)]
    with pytest.raises(TypeError):
        near(3, [])
    with pytest.raises(TypeError):
        near([x], ["a"])
