"""Where an argument starts in its storage is no constant.

torch takes a storage offset of 0 or 1 for a constant and any other for at least 2, as it does with sizes: a program called with a tensor
and then with a slice of one would be compiled twice. No operator asks for an offset, so nothing is lost where it is a symbol from the
start, with 0 in its range.

A program that looks at it gets a guard. But torch takes each size, stride and offset that has become a number for checked with the
tensor itself, and of a tensor no offset is checked: an offset of a number would have no guard. So its symbol is never replaced by one; and
where torch has its way, because obliviousness is off, a program that looks at an offset asks the real tensor (layout_reads.py).
"""

import contextlib

from torch._dynamo.source import TensorProperty, TensorPropertySource
from torch.fx.experimental.symbolic_shapes import ShapeEnv


@contextlib.contextmanager
def are_symbols():
    """Where sizes may be 0. Compiles are serialised by Dynamo, so the class can be changed for the time of one."""
    create = ShapeEnv.create_symbol

    def create_symbol(env, value, source, *args, **named):
        return create(env, value, source, *args, **{**named, "do_not_specialize_zero_one": True} if is_offset(source) else named)

    ShapeEnv.create_symbol = create_symbol
    try:
        yield
    finally:
        ShapeEnv.create_symbol = create


@contextlib.contextmanager
def guarded():
    """A symbol of an offset stays one, whatever is known of it."""
    replace, narrow = ShapeEnv._set_replacement, ShapeEnv._update_var_to_range

    def set_replacement(env, symbol, expr, *args):
        if not (expr.is_number and is_symbol_of_offset(env, symbol)):
            replace(env, symbol, expr, *args)

    def update_range(env, symbol, found, *args, **named):
        if not (found.is_singleton() and is_symbol_of_offset(env, symbol)):
            narrow(env, symbol, found, *args, **named)

    ShapeEnv._set_replacement, ShapeEnv._update_var_to_range = set_replacement, update_range
    try:
        yield
    finally:
        ShapeEnv._set_replacement, ShapeEnv._update_var_to_range = replace, narrow


def is_offset(source):
    return isinstance(source, TensorPropertySource) and source.prop is TensorProperty.STORAGE_OFFSET


def is_symbol_of_offset(env, symbol):
    return any(map(is_offset, env.var_to_sources.get(symbol, ())))
