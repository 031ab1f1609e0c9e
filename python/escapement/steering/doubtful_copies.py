"""With gradients AOTAutograd settles from fake tensors whether `reshape` and the like copy or are views, and layouts were answered obliviously:
what is a copy in the graph may be a view, at these sizes or at others. That is seen where one side is written, or where both sides leave the graph
(an argument is outside of it). Without gradients the recorded operator decides anew.

What is a view in the graph is one: the answer in doubt is always "copy".
"""

from ..recording.bodies import graphs
from ..recording.writes import name_of, storage_of, written_by

# What copies at some sizes and strides and is a view, or its operand, at others.
MAYBE_VIEWS = frozenset(("reshape", "reshape_as", "flatten", "ravel", "contiguous", "sum_to_size", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle"))


def seen(gm):
    """Whether the program can tell one of these copies from a view."""
    return any(seen_in(part.graph) for part in graphs(gm))


def seen_in(graph):
    together = {}   # storage -> all the storages that may be one with it
    for node in graph.nodes:
        if any(storage_of(written) in together for written in written_by(node)):
            return True
        if name_of(node) in MAYBE_VIEWS:
            join(together, *(storage_of(side) for side in (*node.all_input_nodes[:1], node)))
    outside = {storage_of(node) for node in (*graph.find_nodes(op="placeholder"), *graph.output_node().all_input_nodes)}
    return any(len(group & outside) > 1 for group in together.values())


def join(together, source, result):
    if None in (source, result) or source == result:
        return
    group = together.get(source, {source}) | together.get(result, {result})
    together.update(dict.fromkeys(group, group))
