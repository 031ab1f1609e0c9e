"""Views of arguments that a graph with gradients hands back. AOTAutograd makes them anew behind the graph, by sizes and strides (`as_strided`), and that is not always the view
that the program has made:

  made while gradients are off   nothing flows through it in eager; it is made anew with gradients on, and is taken off the tape again here
  of a written argument          its strides are those of a copy, which is what the graph has written; they are the view's where the argument is contiguous
  of an argument that overlaps itself (`p.expand(n, -1)`)    the gradient of `as_strided` shares among places of one memory, which a view's own does not

A call that has one of the last two runs eagerly.
"""

import functools

import torch

from ..recording.dispatch import has_checkpoint
from ..recording.writes import storage_of
from .overlaps import written_by_operators, written_in


def guarded(gm, run, run_eagerly):
    placeholders = list(gm.graph.find_nodes(op="placeholder"))
    results = results_of(gm)
    untaped = [place for place, node in enumerate(results) if is_untaped(node)]
    run = off_the_tape(run, untaped) if untaped else run
    views = [node for node in results if isinstance(node, torch.fx.Node) and node.op != "placeholder"]
    positions, taped = (at_storages(placeholders, map(storage_of, nodes)) for nodes in (views, filter(has_tape, views)))
    written = positions & written_in(gm, placeholders).union(written_by_operators(len(placeholders)))
    if not (written or taped) or has_checkpoint(gm):   # whose graph is not to run eagerly
        return run

    @functools.wraps(run)
    def checked(*arguments):
        made_otherwise = any(not arguments[position].is_contiguous() for position in written) or any(overlaps_itself(arguments[position]) for position in taped)
        return run_eagerly(*arguments) if made_otherwise else run(*arguments)

    return checked


def at_storages(placeholders, storages):
    """Positions."""
    wanted = {*storages} - {None}
    return {position for position, node in enumerate(placeholders) if wanted and storage_of(node) in wanted}


def has_tape(node):
    return getattr(node.meta.get("example_value"), "grad_fn", None) is not None


def overlaps_itself(tensor):
    """As as_strided's derivative sees it. False for what is surely none."""
    if tensor.is_contiguous():
        return False
    end = 0
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape) if size != 1):
        if stride <= end:
            return tensor.numel() > 0
        end += stride * (size - 1)
    return False


def off_the_tape(run, places):
    @functools.wraps(run)
    def without_tape(*arguments):
        results = list(run(*arguments))
        with torch.no_grad():
            for place in places:
                if results[place].grad_fn is not None:
                    results[place] = results[place].view_as(results[place])
        return results

    return without_tape


def results_of(gm):
    returned = gm.graph.output_node().args[0]
    return returned if isinstance(returned, (tuple, list)) else ()


def is_untaped(node):
    if not isinstance(node, torch.fx.Node) or node.op == "placeholder":
        return False
    value = node.meta.get("example_value")
    return isinstance(value, torch.Tensor) and value._is_view() and value.grad_fn is None
