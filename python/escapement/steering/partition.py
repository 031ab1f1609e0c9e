"""Which values of a joint graph the forward saves and which the backward computes again: torch's minimal cut, but for state that the forward writes.

A backward that reads an argument which the forward has written (a counter, a moving average) sees what was written, and computes other values from it than
the forward did. Where the cut wants that, it is made again with a copy of such an argument, taken before the write, in its place.
"""

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch.utils.checkpoint import CheckpointPolicy

from . import float_values

aten = torch.ops.aten


def partition(joint, inputs, **given):
    forward, backward = partition_of(joint, inputs, **given)
    resolve_saved(forward, given.get("num_fwd_outputs", 0))
    float_values.saved_as_tensors(forward, backward, given.get("num_fwd_outputs", 0))
    return forward, backward


def partition_of(joint, inputs, **given):
    written = written_arguments(joint)
    before = torch.fx.GraphModule(joint, copied(joint.graph)) if written else None   # the cut changes the graph
    forward, backward = min_cut_rematerialization_partition(joint, inputs, **given)
    read = written & {node.name for node in backward.graph.find_nodes(op="placeholder")}
    if not read:
        return forward, backward
    read_copies_of(read, before.graph)
    before.recompile()
    return min_cut_rematerialization_partition(before, inputs, **given)


def resolve_saved(forward, results):
    """What the backward is given is no tensor that is conjugated or negated by a bit, which a recording cannot hand out."""
    output = next(iter(forward.graph.find_nodes(op="output")))
    values, changed = list(output.args[0]), False
    for at, node in enumerate(values[results:], results):
        value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
        if isinstance(value, torch.Tensor) and (value.is_conj() or value.is_neg()):
            with forward.graph.inserting_before(output):
                for resolve in (aten.resolve_conj.default, aten.resolve_neg.default):
                    node = forward.graph.call_function(resolve, (node,))
                    node.meta["val"] = value = resolve(value)
            values[at], changed = node, True
    if changed:
        output.args = (type(output.args[0])(values),)
        forward.recompile()


def copied(graph):
    other, names = torch.fx.Graph(), {}
    for node in graph.nodes:
        names[node] = other.node_copy(node, names.__getitem__)
    return other


def written_arguments(joint):
    arguments = joint.graph.find_nodes(op="placeholder")
    context = torch._guards.TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    noted = () if metadata is None else (argument for argument, info in zip(arguments, metadata.input_info) if info.mutates_data)
    copied_into = (node.args[0] for node in joint.graph.find_nodes(op="call_function", target=aten.copy_.default))
    return {node.name for node in (*noted, *copied_into) if node.op == "placeholder"}


def read_copies_of(names, graph):
    arguments = graph.find_nodes(op="placeholder")
    for argument in arguments:
        if argument.name not in names:
            continue
        with graph.inserting_after(arguments[-1]):
            taken = graph.call_function(aten.clone.default, (argument,))
        taken.meta = {**argument.meta, "recompute": CheckpointPolicy.MUST_SAVE}
        argument.replace_all_uses_with(taken, delete_user_cb=lambda user: user is not taken and not is_write_of(user, argument))


def is_write_of(user, argument):
    return user.target is aten.copy_.default and user.args[0] is argument
