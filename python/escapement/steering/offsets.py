"""Where an argument starts in its storage.

torch takes a storage offset of 0 or 1 for a constant and any other for at least 2, as it does with sizes; and each size, stride and offset
that is a number for checked with the tensor itself, where no offset is checked. No operator asks for an offset, so most programs
never notice. Here

  an offset that is a symbol     may be 0 later, and is never replaced by a number, which nobody would guard
  a program that looks at one    is traced again with all of them as symbols, or, where obliviousness is off, asks the real tensor
"""

import contextlib

from torch._dynamo.source import TensorProperty, TensorPropertySource
from torch.fx.experimental.symbolic_shapes import ShapeEnv


@contextlib.contextmanager
def may_be_zero(answers):
    """As the sizes where this is used. An offset of 0 that nobody looks at costs no input of the graph. Compiles are serialised by Dynamo, so the class can be changed for the time of one."""
    create = ShapeEnv.create_symbol

    def create_symbol(env, value, source, *args, **named):
        if is_offset(source) and (answers.offsets or value > 1):
            named["do_not_specialize_zero_one"] = True
        return create(env, value, source, *args, **named)

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
