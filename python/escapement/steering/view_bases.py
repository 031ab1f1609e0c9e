"""The tensor that an argument is a view of. Dynamo makes a fake of it, too, and guards its sizes and strides, though no graph reads them: a model that was first given a slice of
a batch would be compiled again for the first whole tensor, and for a slice of a tensor of another rank. Here those guards go, with their symbols, unless something can depend on them:
the program looks behind the view (`x._base`, its storage), another argument lies in the same memory, or a guard ties a size of the base to one of an argument.
"""

import functools

import torch
from torch._dynamo.source import AttrSource, TensorPropertySource
from torch._dynamo.variables.tensor import TensorVariable

from ..recording.writes import memory_of

BEHIND = frozenset(("untyped_storage", "storage", "_typed_storage", "set_"))


def install(current_session):
    TensorVariable.var_getattr = noticing(TensorVariable.var_getattr, ("_base",), current_session)
    TensorVariable.call_method = noticing(TensorVariable.call_method, BEHIND, current_session)


def noticing(method, names, current_session):
    @functools.wraps(method)
    def call(variable, tx, name, *rest, **named):
        session = current_session() if name in names else None
        if session is not None:
            session.looks_behind_views = True
        return method(variable, tx, name, *rest, **named)

    return call


def forget(session, gm, env):
    """Before guards are made, when nothing is asked of the graph's sizes any more."""
    if session is None:
        return
    bases = unshared(env.tracked_fakes)
    own = symbols_of(bases, env)
    if session.looks_behind_views or own & used(gm, env) or not all(free <= own for free in relations(env) if free & own):
        return
    env.tracked_fakes[:] = [tracked for tracked in env.tracked_fakes if tracked.source.name not in bases]
    env.guards[:] = [guard for guard in env.guards if not guard.expr.free_symbols & own]


def unshared(tracked_fakes):
    """Names of the bases of arguments that are alone in their memory."""
    tensors = {tracked.source.name: tracked for tracked in tracked_fakes or () if isinstance(tracked.fake, torch.Tensor)}
    views = {name: tracked.source.base.name for name, tracked in tensors.items() if is_base(tracked.source, tensors)}
    memory = {}
    for name, tracked in tensors.items():
        if name not in views:
            memory.setdefault(memory_of(tracked.fake) or name, []).append(name)
    alone = {names[0] for names in memory.values() if len(names) == 1}
    return {base for base, view in views.items() if view in alone}


def is_base(source, tensors):
    """An attribute of this name of something else than a tensor is the program's."""
    return isinstance(source, AttrSource) and source.member == "_base" and source.base.name in tensors


def symbols_of(bases, env):
    """Those that stand for nothing else."""
    return {symbol for symbol, sources in env.var_to_sources.items()
            if sources and all(isinstance(source, TensorPropertySource) and source.base.name in bases for source in sources)}


def relations(env):
    yield from (guard.expr.free_symbols for guard in env.guards)
    yield from ({symbol, *expr.free_symbols} for symbol, expr in env.replacements.items())


def used(gm, env):
    """Symbols of whatever the graph computes, after what was found equal."""
    found = set()
    for module in gm.modules():
        for node in getattr(module, "graph", torch.fx.Graph()).nodes:
            for value in torch.utils._pytree.tree_leaves(node.meta.get("example_value")):
                found.update(*(env.replace(number.node.expr).free_symbols | number.node.expr.free_symbols for number in numbers(value)))
    return found


def numbers(value):
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        yield value
    elif isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_nested:
        yield from (number for number in (*value.shape, *value.stride(), value.storage_offset()) if isinstance(number, torch.SymInt))
