"""With gradients: `reshape` and the like copy or are views, as eagerly, where that can be seen; where it cannot, one compile serves all sizes."""

import operator

import pytest
import torch
import torch.nn.functional as F

import escapement
from escapement.recording.writes import written_by

ORDERS = (((5, 7), (1, 7), (5, 1), (1, 1), (2, 3)), ((1, 7), (5, 7), (3, 1)), ((1, 1), (5, 7), (1, 3), (2, 1)))


def twice_reshaped(x):
    z = x * 2
    return z, z[:, :1].reshape(-1).reshape(1, -1)[:, :1].flatten()


BOTH_SIDES = {
    "a column": lambda x: [z := x * 2, z[:, :1].reshape(-1)], "every second": lambda x: [z := x * 2, z[:, ::2].reshape(-1)],
    "transposed": lambda x: [z := x * 2, z.t().flatten()], "contiguous": lambda x: [z := x * 2, z.t().contiguous()], "twice": twice_reshaped,
    "of an argument": lambda x: [x[:, :1].reshape(-1)], "transposed argument": lambda x: [x.t().reshape(-1)], "sum_to_size": lambda x: [z := x * 2, z.sum_to_size(1, x.shape[1])],
}


def shared(tensors):
    return [[one.untyped_storage()._cdata == other.untyped_storage()._cdata for other in tensors] for one in tensors]


@pytest.mark.parametrize("name", BOTH_SIDES)
def test_both_sides_leave_the_graph(name):
    for shapes in ORDERS:
        torch._dynamo.reset()
        compiled = torch.compile(BOTH_SIDES[name], backend="escapement")
        for shape in shapes:
            x, y = (torch.arange(float(shape[0] * shape[1])).reshape(shape).requires_grad_() for _ in range(2))
            ours, eager = [x, *compiled(x)], [y, *BOTH_SIDES[name](y)]
            assert shared(ours) == shared(eager), shape
            torch.testing.assert_close(ours, eager)


def written_elsewhere(x):
    z = (x + 1).mul_(2)
    y = (x * 3).flatten()
    w = (x * 5).relu_()
    return z + w + y.reshape(z.shape)


def test_what_cannot_be_seen_is_no_guard():
    torch._dynamo.reset()
    escapement.reset()
    compiled = torch.compile(written_elsewhere, backend="escapement")
    for shape in ((5, 7), (1, 7), (13, 11), (2, 3), (0, 5), (1, 1)):
        x, y = (torch.arange(1.0, shape[0] * shape[1] + 1).reshape(shape).requires_grad_() for _ in range(2))
        ours, eager = compiled(x), written_elsewhere(y)
        ours.square().sum().backward(), eager.square().sum().backward()
        torch.testing.assert_close((ours, x.grad), (eager, y.grad))
    counted = escapement.stats()
    assert counted["dynamo"]["compiles"] == 1 and not counted["dynamo"]["specialised_dims"] and not counted["dynamo"]["graph_breaks"], counted
    assert not counted["dynamo"]["fallbacks"] and counted["launches"] >= 10, counted   # a kernel each way, but for no elements


NODES = {
    "add_": ("call_method", "add_", 1), "method": ("call_method", "add", 0), "dunder": ("call_method", "__add__", 0), "setitem": ("call_function", operator.setitem, 1),
    "iadd": ("call_function", operator.iadd, 1), "index": ("call_function", operator.index, 0), "invert": ("call_function", operator.invert, 0),
    "and_": ("call_function", operator.and_, 0), "relu_": ("call_function", torch.relu_, 1), "overload": ("call_function", torch.ops.aten.add_.Tensor, 1),
    "out of place": ("call_function", torch.ops.aten.add.Tensor, 0), "packet": ("call_function", torch.ops.aten.add_, 1), "foreach": ("call_function", torch._foreach_add_, 2),
    "foreach out of place": ("call_function", torch._foreach_add, 0), "relu": ("call_function", F.relu, 0), "dropout": ("call_function", F.dropout, 0),
}


@pytest.mark.parametrize("name", NODES)
def test_what_a_node_writes(name):
    kind, target, count = NODES[name]
    graph = torch.fx.Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b")
    arguments = ([a, b],) if "foreach" in name else (a,) if name in ("relu", "dropout") else (a, b)
    assert len(written_by(graph.create_node(kind, target, arguments))) == count


@pytest.mark.parametrize("arguments, named, count", (((True,), {}, 1), ((), {"inplace": True}, 1), ((), {"inplace": False}, 0), ((False,), {}, 0)))
def test_functional_in_place(arguments, named, count):
    graph = torch.fx.Graph()
    assert len(written_by(graph.call_function(F.relu, (graph.placeholder("a"), *arguments), named))) == count


def test_out():
    graph = torch.fx.Graph()
    a, b, c = (graph.placeholder(name) for name in "abc")
    assert written_by(graph.call_function(torch.exp, (a,), {"out": b})) == (b,)
    assert written_by(graph.call_function(torch.max, (a, 0), {"out": (b, c)})) == (b, c)
