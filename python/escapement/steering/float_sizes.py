"""Sizes that went through a float (`int(h * scale)`, `math.ceil(w / 32) * 32`, what `interpolate` makes of a scale factor).

Sympy has no rules for such numbers, yet it tries, at each question about anything made of them: a detection network compiled for minutes. Here each is
a symbol of its own as soon as it is an integer again, the same one for the same expression, and its source is the expression in Python's
words. For the guards it is an input like any other: they check what is known of it.

Only without gradients: AOTAutograd traces the graph once more, and wants to know where a symbol comes from.
"""

import dataclasses
import functools

import torch
from torch._dynamo.variables.builder import TrackedFake
from torch._guards import GuardSource, Source
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import DimDynamic, LoggingShapeGuardPrinter
from torch.utils._sympy.functions import CeilToInt, FloorToInt, RoundToInt, TruncToInt

FROM_FLOATS = (TruncToInt, FloorToInt, CeilToInt, RoundToInt)
METHODS = ("trunc", "floor", "ceil", "round")   # of SymNode


@dataclasses.dataclass(frozen=True)
class Computed(Source):
    """A number that is no input of the program."""
    text: str

    @property
    def name(self):
        return self.text

    @property
    def _name_template(self):
        return self.text

    @property
    def guard_source(self):
        return GuardSource.CONSTANT   # its text stands in a guard as it is


def install(current_session):
    for method in METHODS:
        setattr(SymNode, method, with_own_symbols(getattr(SymNode, method), current_session))


def possible():
    return all(hasattr(SymNode, method) for method in METHODS)


def with_own_symbols(method, current_session):
    @functools.wraps(method)
    def call(node, *args):
        result = method(node, *args)
        session = current_session()
        return result if session is None or torch.is_grad_enabled() else own_symbol(result)

    return call


def own_symbol(node):
    """The node with a symbol for its expression, where that is more than a symbol and known now."""
    expr, env = node.expr, node.shape_env
    if node.pytype is not int or not node.has_hint() or not isinstance(expr, FROM_FLOATS) or env.frozen or env.tracked_fakes is None:
        return node
    known = definitions(env)
    symbol = next((symbol for symbol, definition in known.items() if definition == expr), None) or defined(expr, int(node.hint), env)
    return SymNode(symbol, env, int, node.hint, fx_node=node.fx_node)


def definitions(env):
    """By symbol, in the order in which they were made: a later one may be made of earlier ones."""
    if not hasattr(env, "escapement_definitions"):
        env.escapement_definitions = {}
    return env.escapement_definitions


def defined(expr, hint, env):
    source = Computed(f"({LoggingShapeGuardPrinter(env.var_to_sources).doprint(expr)})")
    symbol = env.create_symbol(hint, source, dynamic_dim=DimDynamic.DYNAMIC, positive=None, do_not_specialize_zero_one=True)
    bounds = env.bound_sympy(expr)
    if bounds.is_int:
        env.var_to_range[symbol] = bounds
    definitions(env)[symbol] = expr
    env.tracked_fakes.append(TrackedFake(env.create_symintnode(symbol, hint=hint, source=source), source, None))
    return symbol


def in_sizes(expr, env):
    """The expression without such symbols."""
    known = getattr(env, "escapement_definitions", {})
    while found := {symbol: known[symbol] for symbol in expr.free_symbols if symbol in known}:
        expr = expr.xreplace(found)
    return expr
