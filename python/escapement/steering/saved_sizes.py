"""Sizes that a forward computes for its backward. `3 * n` comes to the backward as a number beside `n`, and nothing there says that one is three times
the other, which a view over both must know: it would be an operator with sizes of its own. The same arithmetic inside of the backward says so."""

import torch
from torch.utils._sympy.functions import FloorDiv
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

SAID = ("Symbol", "Integer", "NegativeOne", "One", "Zero", "Add", "Mul", "Pow")


def compute(gm):
    """In place of the numbers among the graph's inputs that follow from its other inputs."""
    inputs = list(gm.graph.find_nodes(op="placeholder"))
    derived = [(node, expression) for node in inputs if (expression := expression_of(node.meta.get("val"))) is not None and is_said(expression)]
    if not derived or not any(node.users for node, _ in derived):
        return
    behind = next(node for node in gm.graph.nodes if node.op != "placeholder")
    with gm.graph.inserting_before(behind):
        sizes = sizes_of(inputs, set().union(*(expression.free_symbols for _, expression in derived)))
        for node, expression in derived:
            if node.users and expression.free_symbols <= sizes.keys():
                replace(node, sympy_interp(PythonReferenceAnalysis, sizes, expression).node)
    gm.graph.lint()
    gm.recompile()


def replace(node, computed):
    computed.meta["val"] = node.meta["val"]
    node.replace_all_uses_with(computed)


def expression_of(value):
    return value.node.expr if isinstance(value, torch.SymInt) else None


def is_said(expression):
    """Arithmetic whose every step is exact: no symbol by itself, no division but by `//`."""
    def fine(part):
        if part.func.__name__ == "Pow":
            return part.exp.is_Integer and part.exp > 0 and fine(part.base)
        return (part.func.__name__ in SAID or part.func is FloorDiv) and all(map(fine, part.args))

    return not expression.is_Symbol and bool(expression.free_symbols) and fine(expression)


def sizes_of(inputs, wanted):
    """symbol -> the input that is that number, or the size of one that is a tensor."""
    found = {}
    for node in inputs:
        expression = expression_of(node.meta.get("val"))
        if expression in wanted:
            found.setdefault(expression, torch.fx.Proxy(node))
    for node in inputs:
        value = node.meta.get("val")
        for axis, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if (expression := expression_of(size)) in wanted and expression not in found:
                found[expression] = torch.fx.Proxy(node.graph.call_function(torch.ops.aten.sym_size.int, (node, axis)))
                found[expression].node.meta["val"] = size
    return found
