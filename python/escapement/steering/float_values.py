"""Floats that vary, in graphs with gradients. Torch's pass over the joint graph makes tensors of them for the few operators that it knows (`*`, `+`, `<`), and
constants for all others: a compile for each value of `torch.where(x > 0, y, s)`. A region needs neither: it reads such a number from the tensor that
Dynamo has given it, and computes with it as eager does with the number. So the pass is left out; and what a forward hands on to its backward or to
the program as a number goes through a tensor (float64, which is exact), since a region takes and returns no floats.

Where a size is made of such a number the pass stays: it makes a constant of that one.
"""

import contextlib
import functools

import torch
from torch._functorch._aot_autograd import graph_compile
from torch.utils._sympy.symbol import SymT, symbol_is_type

aten = torch.ops.aten
PASS = "tensorify_python_scalars"


@contextlib.contextmanager
def kept():
    """Compiles are serialised by Dynamo, so the module can be changed for the time of one."""
    torchs = getattr(graph_compile, PASS, None)
    if torchs is None:
        yield
        return
    setattr(graph_compile, PASS, where_sizes_need_it(torchs))
    try:
        yield
    finally:
        setattr(graph_compile, PASS, torchs)


def where_sizes_need_it(torchs):
    @functools.wraps(torchs)
    def run(gm, shape_env, fake_mode):
        if any(map(has_such_a_size, gm.graph.nodes)):
            torchs(gm, shape_env, fake_mode)

    return run


def has_such_a_size(node):
    value = node.meta.get("val")
    sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
    return any(symbol_is_type(symbol, SymT.FLOAT) for size in sizes if isinstance(size, torch.SymInt) for symbol in size.node.expr.free_symbols)


def is_float(node):
    return isinstance(node, torch.fx.Node) and isinstance(node.meta.get("val"), torch.SymFloat)


def zero_dims():
    return torch.empty((), dtype=torch.float64, device="meta")


# --- between a forward and its backward

def saved_as_tensors(forward, backward, results):
    """What the forward saves stands behind its `results` results: tensors, then integers; the backward takes the integers first."""
    output = next(iter(forward.graph.find_nodes(op="output")))
    values = list(output.args[0])
    saved = [node for node in values[results:] if is_float(node)]
    if not saved:
        return
    output.args = ([*values[:results], *(tensor_of(node, output) for node in saved), *(node for node in values[results:] if node not in saved)],)
    read_from_tensors(backward.graph, [node.name for node in saved])
    forward.recompile()
    backward.recompile()


def tensor_of(number, before):
    with before.graph.inserting_before(before):
        tensor = before.graph.call_function(aten.scalar_tensor.default, (number,), {"dtype": torch.float64})
    tensor.meta["val"] = zero_dims()
    return tensor


def read_from_tensors(graph, names):
    arguments = list(graph.find_nodes(op="placeholder"))
    numbers = {node.name: node for node in arguments if node.name in names}
    first = next((node for node in arguments if isinstance(node.meta.get("val"), torch.Tensor)), arguments[-1].next)
    for name in names:
        with graph.inserting_before(first):
            tensor = graph.placeholder(f"{name}_tensor")
        tensor.meta["val"] = zero_dims()
        with graph.inserting_after(arguments[-1]):
            read = graph.call_function(aten._local_scalar_dense.default, (tensor,))
        read.meta = dict(numbers[name].meta)
        numbers[name].replace_all_uses_with(read)
        graph.erase_node(numbers[name])
        arguments = list(graph.find_nodes(op="placeholder"))


# --- between a graph and the program

def returned_as_tensors(gm, make):
    """`make(gm)`, a function, where `gm` returns tensors for floats, and the function floats."""
    output = next(iter(gm.graph.find_nodes(op="output")))
    values = list(output.args[0]) if isinstance(output.args[0], (tuple, list)) else []
    floats = {place for place, node in enumerate(values) if is_float(node)}
    if not floats:
        return make(gm)
    output.args = ([tensor_of(node, output) if place in floats else node for place, node in enumerate(values)],)
    gm.recompile()
    made = make(gm)
    return lambda *arguments: [value.item() if place in floats else value for place, value in enumerate(made(*arguments))]
