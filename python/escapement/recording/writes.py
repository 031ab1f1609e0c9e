"""Which arguments a node of a graph writes, by its schema where it has one and else by its name; and in whose memory a value of a graph lies."""

import inspect

import torch

IN_PLACE = frozenset("setitem iadd isub imul imatmul itruediv ifloordiv imod ipow ilshift irshift iand ior ixor".split())   # of module operator
NOT_IN_PLACE = frozenset(("and_", "or_", "not_", "is_"))


def name_of(node):
    """That of the method or function, for all ways to call it; empty for what is no call."""
    if node.op == "call_method":
        return node.target
    packet = getattr(node.target, "overloadpacket", node.target)
    return getattr(packet, "__name__", "") if node.op == "call_function" else ""


def written_by(node):
    """Nodes. The bodies of a higher-order operator are graphs of their own."""
    name, out = name_of(node), node.kwargs.get("out")
    if name.startswith("_foreach") and name.endswith("_"):
        return node.all_input_nodes
    first = node.all_input_nodes[:1] if is_in_place(node, name) else ()
    return (*first, *((out,) if isinstance(out, torch.fx.Node) else out or ()))


def is_in_place(node, name):
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.is_mutable
    return name in IN_PLACE or name.endswith("_") and not name.endswith("__") and name not in NOT_IN_PLACE or asks_in_place(node)


def asks_in_place(node):
    """`F.relu(x, True)`"""
    if node.op != "call_function":
        return bool(node.kwargs.get("inplace"))
    try:
        return bool(inspect.signature(node.target).bind(*node.args, **node.kwargs).arguments.get("inplace"))
    except (TypeError, ValueError):   # most of what is written in C++ has no signature
        return bool(node.kwargs.get("inplace"))


def storage_of(node):
    """Of its fake tensor, as Dynamo noted it."""
    return memory_of(node.meta.get("example_value"))


def memory_of(fake):
    """What tensors of one memory have in common, inside of what `torch.func` wraps them in. None: it has none of its own, or is no tensor."""
    while isinstance(fake, torch.Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(fake):
        fake = torch._C._functorch.get_unwrapped(fake)
    if not isinstance(fake, torch.Tensor) or fake.layout is not torch.strided or fake.is_nested:
        return None
    return fake.untyped_storage()._cdata
