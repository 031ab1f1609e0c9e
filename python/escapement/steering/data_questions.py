"""A question of the program about sizes that only the data tell, which the sizes of its inputs may decide all the same.

torch takes every size of an input for 2 or more, and so answers `torch.cat([x[x > 0], y]).numel() == 0` by algebra: what stands at the end
of the sum makes it positive. Our sizes may be 0, so nothing follows from them, and the question would be a graph break. Here the lengths
that torch would assume are looked for, the least that decide, and guarded. A question that they do not decide is a break, as in torch.
"""

import contextlib

import sympy
from torch._library.fake_impl import FakeImplCtx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

LEAST = (1, 2)   # torch assumes 2; 1 serves more calls


@contextlib.contextmanager
def answered():
    """Compiles are serialised by Dynamo, so the class can be changed for the time of one."""
    asked = ShapeEnv.evaluate_expr

    def evaluate(env, expr, *args, **named):
        try:
            return asked(env, expr, *args, **named)
        except GuardOnDataDependentSymNode:
            for guards, answer in assumptions(env, expr):
                if answer is not None:
                    for guard in guards:
                        asked(env, guard)
                    return answer
            raise

    made = FakeImplCtx.create_unbacked_symint
    ShapeEnv.evaluate_expr, FakeImplCtx.create_unbacked_symint = evaluate, size_of_data
    try:
        yield
    finally:
        ShapeEnv.evaluate_expr, FakeImplCtx.create_unbacked_symint = asked, made


def size_of_data(context, *, min=2, max=None):
    """What operators of other libraries call (`nms` of torchvision): torch has them say "at least 2" if they say nothing, which is not so, and
    an assertion in the graph that fails."""
    return context.new_dynamic_size(min=0 if min == 2 else min, max=max)


def expected(asked, is_left, leave):
    """An assertion of torch's. Here, because the place of a guard is who asked, and this file is none (dynamo.py)."""
    def expect_true(node, file, line):
        return leave(node) if is_left(node, file) else asked(node, file, line)

    return expect_true


def assumptions(env, expr):
    """(what to assume of the inputs' sizes, the answer that follows or None), the weakest first."""
    known = {symbol: size for symbol in expr.free_symbols if (size := env.backed_var_to_val.get(symbol)) is not None and symbol.is_integer}
    for least in LEAST if known else ():
        longer = [symbol for symbol, size in known.items() if size >= least]
        yield [sympy.Ge(symbol, least) for symbol in longer], decided(env, expr, {symbol: ValueRanges(least, int_oo) for symbol in longer})


def decided(env, expr, ranges):
    """The truth of the relation where the ranges of its symbols tell it."""
    if not expr.is_Relational:
        return None
    known = {symbol: env.var_to_range[symbol] for symbol in expr.free_symbols if symbol in env.var_to_range}
    known.update((symbol, known.get(symbol, found) & found) for symbol, found in ranges.items())
    try:
        found = bound_sympy(expr.func(sympy.expand(expr.lhs - expr.rhs), 0), known)
    except Exception:   # an expression that torch's analysis does not know
        return None
    return found.lower if found.is_singleton() else None
