"""Which operators of a graph take an integer of the program as a constant? ATen's schemas say it: `SymInt` may be a
run-time integer, `int` may not. Where a symbol met an `int`, the tracer has pinned it at the first such operator and
says nothing of the others; this list has them all, so that nobody has to repair them one by one. It is made before any
code is generated.
"""

import typing

import torch
from torch.utils._pytree import tree_leaves

from ..recording.locator import node_place


class Constant(typing.NamedTuple):
    """An operator that needs one of the program's integers as a constant."""

    op: str
    argument: str
    integer: object      # the graph node that is the integer
    place: str

    def text(self, value):
        return f"{self.argument} of {self.op} is {value}, and has to be a constant, at {self.place}"


def constants(gm):
    """In the order of the program."""
    return [Constant(name_of(node), argument, value, node_place(node)) for node in gm.graph.nodes
            if node.op in ("call_function", "call_method") for argument, value in refused(node)
            if value.meta["example_value"].node.expr.is_Integer]   # pinned: the tracer agrees


def refused(node):
    """(argument, integer node) for each symbolic integer in a place where no schema of the operator takes one."""
    given = [(place, value) for place, tree in (*enumerate(node.args), *node.kwargs.items()) for value in tree_leaves(tree)
             if isinstance(value, torch.fx.Node) and isinstance(value.meta.get("example_value"), torch.SymInt)]
    for place, value in given:
        found = [argument for schema in schemas_of(node) if (argument := argument_at(schema, place)) is not None]
        if found and all(takes_constant(argument) for argument in found):
            yield found[0].name, value


def name_of(node):
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))


def schemas_of(node):
    """Of the ATen operator of that name, which is what torch's functions and methods call. Arithmetic and types have
    none."""
    if getattr(node.target, "__module__", None) == "_operator" or isinstance(node.target, type):
        return []
    packet = getattr(torch.ops.aten, name_of(node), None)
    return [getattr(packet, overload)._schema for overload in packet.overloads()] if packet is not None else []


def argument_at(schema, place):
    arguments = schema.arguments
    if isinstance(place, int):
        return arguments[place] if place < len(arguments) and not arguments[place].kwarg_only else None
    return next((argument for argument in arguments if argument.name == place), None)


def takes_constant(argument):
    """`int`, `int?` or `int[]`."""
    kind = argument.real_type     # argument.type calls a SymInt an int
    while kind.kind() in ("ListType", "OptionalType"):
        kind = kind.getElementType()
    return kind.kind() == "IntType"
