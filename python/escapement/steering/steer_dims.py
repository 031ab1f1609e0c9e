"""Declared dims, told to Dynamo: how each starts, which range it has, and whether the traced program keeps to it.

Like dynamo.py this file knows private names of torch, and no result depends on them: a range that torch does not take
over is still checked at every call, and what the program relies on is judged from its guards. Where dynamo.py is not on
its first route, only the calls are checked. (torch.compile's own `shapes_spec` is not used: its dims are unbacked,
where a branch on a size breaks the graph instead of naming the culprit.)
"""

import sympy
from torch._C._dynamo.eval_frame import set_code_exec_strategy
from torch._dynamo import pgo
from torch._dynamo.types import FrameAction, FrameExecStrategy
from torch.fx.experimental.symbolic_shapes import StrictMinMaxConstraint
from torch.utils._sympy.value_ranges import bound_sympy

from ..dims import frames
from ..dims.contract import current_contract
from ..dims.findings import Findings, Relation, Size
from ..dims.intervals import interval, proven
from ..dims.spec import LARGEST, Dim, Hint, Linear
from . import notes


class Declared:
    """One frame being compiled for a function that has a contract."""

    def __init__(self, contract, inputs):
        self.contract, self.inputs = contract, inputs    # inputs: frames.Input by Dynamo's names
        self.looked_at = {}                              # Dynamo's name -> sizes, of the inputs that the program uses
        self.output = None


def declared(backends, code, frame_locals):
    """`backends`: the object that torch.compile was given, and what it wraps."""
    contract = next((found for backend in backends if (found := getattr(backend, "contract", None)) is not None), None)
    if contract is None:
        return None
    ours = contract is current_contract()   # not so where somebody calls the inner function past our check
    return Declared(contract, frames.frame_inputs(code, frame_locals) if ours else {})


def key(declared):
    """Another contract on the same code has versions and a budget of its own."""
    return () if declared is None else (declared.contract.number,)


def learn(declared, code, facts):
    if declared is not None:
        declared.contract.learned.append((id(code), facts))


def never_compile(function):
    """Keeps an outer compile from taking our wrapper and its helpers for a part of the user's program. The inner
    compile switches itself on again."""
    set_code_exec_strategy(function.__code__, FrameExecStrategy(FrameAction.SKIP, FrameAction.SKIP))


# --- how a dim starts

def sizes(session, tx, name, given, usual, merged):
    """What Dynamo makes of each axis. `usual`: what it is where nothing was declared; `merged`: what Dynamo has seen
    vary."""
    if session.declared is None:
        return usual
    found = session.declared.inputs.get(name)
    tx.output.export_constraints, session.declared.output = None, tx.output
    if found is None:
        return usual
    session.declared.looked_at[name] = given
    same_rank = isinstance(merged, tuple) and len(merged) == len(given)
    chosen = list(usual)
    for axis, dim in found.dims.items():
        if axis is not None:
            varied = same_rank and merged[axis] is pgo.auto_dynamic
            chosen[axis] = start(dim, given[axis], usual[axis], varied, session.oblivious)
    tx.output.export_constraints = [Range(axis, dim) for axis, dim in found.dims.items()
                                    if axis is not None and chosen[axis] is pgo.auto_dynamic and has_range(dim)]
    return tuple(chosen)


def start(dim, size, usual, varied, oblivious):
    if type(dim) is int or dim.low == dim.high or dim == Dim.STATIC:
        return size
    if dim == Dim.STATIC_FIRST:
        return usual if varied else size
    if isinstance(dim, Linear):
        return pgo.auto_dynamic if oblivious or size > 1 else size
    return usual


def has_range(dim):
    return isinstance(dim, (Linear, Hint)) and (dim.low, dim.high) != (0, LARGEST)


def is_declared(session, name):
    return session.declared is not None and name in session.declared.inputs


def scalar(session, name, given, merged):
    session.declared.looked_at[name] = (given,)
    varied = merged is pgo.auto_dynamic
    dim = session.declared.inputs[name].dims.get(None, Dim.AUTO)
    return start(dim, given, pgo.auto_dynamic, varied, True)


class EveryTensor:
    """Equal to the id of whichever tensor Dynamo is looking at: the list of constraints is made anew for each tensor."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return id(self)


class Range:
    """What Dynamo expects of an export constraint. It only warns: breaches are ours to report, with line and reason."""

    def __init__(self, axis, dim):
        self.t_id, self.dim, self.name = EveryTensor(), axis, repr(dim)
        self.constraint_range = StrictMinMaxConstraint(vr=interval(dim.low, dim.high), warn_only=True)


# --- what became of it

def hold(session, env, constants):
    """The facts about this frame's dims; DimError where the program breaks the contract. `constants`: texts of all
    operators that need one of its integers as a constant, which the complaint lists."""
    found = session.declared
    if found is None:
        return ()
    if found.output is not None:
        found.output.export_constraints = None   # torch would make guards of its own from them
    findings = Findings(list(traced_sizes(found, env)), list(relied_on(env)), proven)
    return frames.hold(found.contract, findings, constants, lambda size: outcome(size, env))


def traced_sizes(found, env):
    for name, sizes in found.looked_at.items():
        given = found.inputs[name]
        tensor = type(given.value) is not int
        for axis, size in enumerate(sizes):
            spelled = f"{name}.size()[{axis}]" if tensor else name
            axis = axis if tensor else None
            symbol = env.source_to_var.get(spelled)
            pinned = symbol is not None and env.replace(symbol).is_Integer
            reason = why_constant(symbol, size, env) if pinned or symbol is None else ""
            yield Size(given.place(axis), given.key(axis), given.dims.get(axis), symbol, size, reason, pinned)


def why_constant(symbol, size, env):
    place = env.replacements_slocs.get(symbol)
    if place is not None:
        return f"pinned at {notes.user_place(place)}"
    return f"it was {size} when first seen" if size < 2 else "static by torch's choice"


def relied_on(env):
    for guard in env.guards:
        yield Relation(guard.expr, notes.in_words(guard.expr, env), str(notes.user_place(guard.sloc)), notes.asked_by_host(guard))
    for symbol, expr in env.replacements.items():
        place = env.replacements_slocs.get(symbol)
        yield Relation(sympy.Eq(symbol, expr), notes.in_words(sympy.Eq(symbol, expr, evaluate=False), env),
                       str(notes.user_place(place)) if place is not None else "an unknown place", False)


def outcome(size, env):
    """The constant, or the range that this program serves."""
    if size.symbol is None:
        return size.value
    expr = env.replace(size.symbol)
    if expr.is_Integer:
        return int(expr)
    known = {symbol: env.var_to_range[symbol] for symbol in expr.free_symbols if symbol in env.var_to_range}
    found = bound_sympy(expr, known)
    low = int(found.lower) if found.lower.is_Integer else 0
    return Hint("AUTO", 0 if low <= 2 else low, int(found.upper) if found.upper.is_Integer else LARGEST)
