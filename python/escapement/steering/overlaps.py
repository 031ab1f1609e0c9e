"""With gradients AOTAutograd settles from the first call which arguments lie in one memory, and where they did not it guards nothing: a graph that
writes one of them would hand on what another held before. And it writes last, behind the point at which autograd has noted what is read, also
of parts of one tensor that do not overlap. So such a graph looks at each call, and where a written argument shares memory
with another one the graph runs eagerly. Where they overlap at the first call AOTAutograd joins them, and replays views at each call, some of which
fail: such a graph is not compiled, and a guard keeps it from other calls. Without gradients a region's checks do all this.
"""

import functools

import torch
from torch._C._dynamo.guards import compute_overlapping_tensors
from torch._dynamo import guards
from torch._dynamo.source import GlobalStateSource
from torch._guards import StorageOverlap, TracingContext

from ..core import core
from ..recording.bodies import graphs
from ..recording.dispatch import has_checkpoint
from ..recording.writes import storage_of, written_by


def some_overlap(gm):
    """Whether a written argument overlaps with another one now. Then a guard says so."""
    placeholders = list(gm.graph.find_nodes(op="placeholder"))
    overlapping = overlaps([example_of(node) for node in placeholders], written_in(gm, placeholders))
    for pair in overlapping:
        guard(sources_of(placeholders, pair))
    return bool(overlapping)


def guard(overlapping):
    """By the sources of arguments."""
    context = TracingContext.try_get()
    if context is not None:
        context.guards_context.aotautograd_guards.append(StorageOverlap(overlapping, []))


def sources_of(placeholders, positions):
    return [placeholders[position].meta["grapharg"].source for position in positions]


def guarded(gm, run, run_eagerly):
    """`run`, or `run_eagerly` at calls where a written argument of `gm` shares memory with another one."""
    placeholders = list(gm.graph.find_nodes(op="placeholder"))
    written = sorted(written_in(gm, placeholders).union(written_by_operators(len(placeholders))))
    if not written or sum(isinstance(node.meta.get("example_value"), torch.Tensor) for node in placeholders) < 2:
        return run
    if overlaps([example_of(node) for node in placeholders], written):   # of one that only AOTAutograd knows to be written
        return run_eagerly
    if has_checkpoint(gm):   # whose graph is not to run eagerly: the frame does, behind guards
        guard_apart(placeholders, written)
        return run

    @functools.wraps(run)
    def checked(*arguments):
        return run_eagerly(*arguments) if core().near(arguments, written) else run(*arguments)

    return checked


def guard_apart(placeholders, written):
    """That no written argument shares memory with another one. torch's own guard is for tensors of which that is known: it compares where in it they lie."""
    tensors = [position for position, node in enumerate(placeholders) if storage_of(node) is not None]
    context = TracingContext.try_get()
    if context is not None:
        among = tuple(number for number, position in enumerate(tensors) if position in written)
        hold = functools.partial(keep_apart, sources=sources_of(placeholders, tensors), written=among)
        context.guards_context.dynamo_guards.add(GlobalStateSource().make_guard(hold))


def keep_apart(builder, guard, sources, written):
    """The guard is made when all of the frame has been traced."""
    names = [source.name for source in sources]
    find = compile(f"[{', '.join(names)}]", "<arguments>", "eval")
    space = {**guards._get_closure_vars(), "G": builder.scope["G"]}
    text = [f"no memory is shared with {', '.join(names[number] for number in written)}"]
    builder.guard_manager.root.add_lambda_guard(lambda values: not core().near(eval(find, space, {"L": values}), written), text, guard.user_stack)


def overlaps(arguments, written):
    """Pairs of positions."""
    near = core().near(arguments, tuple(written))
    return [pair for pair in near if compute_overlapping_tensors([arguments[position] for position in pair], symbolic=False)]


def example_of(node):
    """What the program called with; the graph has a fake of it."""
    argument = node.meta.get("grapharg")
    return None if argument is None else argument.example


def written_in(gm, placeholders):
    """Positions."""
    storages = {storage_of(node) for part in graphs(gm) for step in part.graph.nodes for node in written_by(step)} - {None}
    return {position for position, node in enumerate(placeholders) if storages and storage_of(node) in storages}


def written_by_operators(count):
    """What AOTAutograd has found written (the statistics of a norm, say); arguments that it has joined have other positions."""
    context = TracingContext.try_get()
    facts = getattr(getattr(context, "fw_metadata", None), "input_info", ())
    return (position for position, fact in enumerate(facts) if fact.mutates_data) if len(facts) == count else ()
