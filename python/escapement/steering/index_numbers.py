"""Numbers that the tracer would pin because they stand in an index: a size, an integer argument, a tensor of one integer.

`x[n]`, `x[:, t]`, `x[t] = y`: the method behind the brackets takes an integer as a constant, so each value would be a compile. The same
element is what `select` takes as a symbol. So while a frame of ours is traced such numbers are selected first (recording/index_walk.py). An index with anything else in it than numbers, slices, None, `...` and tensors of integers is left
as it is.
"""

import functools
import operator

import torch
from torch._dynamo.variables import BuiltinVariable, ConstantVariable, SliceVariable, TupleVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable
from torch._dynamo.variables.torch_function import can_dispatch_torch_function

from ..recording.index_walk import is_known, select_numbers

INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)


def install(current_session):
    BuiltinVariable._handle_insert_op_in_graph = reading(BuiltinVariable._handle_insert_op_in_graph, current_session)
    BuiltinVariable.call_function_handler_cache.clear()    # of what was compiled before; it holds the method as it was
    TensorVariable.method___setitem__ = writing(TensorVariable.method___setitem__, current_session)


def reading(insert, current_session):
    @functools.wraps(insert)
    def read(builtin, tx, args, kwargs):
        is_read = builtin.fn is operator.getitem and current_session() is not None and type(args[0]) is TensorVariable
        found = selected(tx, *args) if is_read and not can_dispatch_torch_function(tx, args, kwargs) else None
        if found is None:
            return insert(builtin, tx, args, kwargs)
        view, rest = found
        return insert(builtin, tx, [view, TupleVariable(rest)], kwargs) if rest else view

    return read


def writing(setitem, current_session):
    @functools.wraps(setitem)
    def write(variable, tx, key, value):
        if current_session() is None:
            return setitem(variable, tx, key, value)
        found = selected(tx, variable, key)
        if found is not None:
            variable, rest = found
            key = TupleVariable(rest or [ConstantVariable.create(...)])
        return copied(tx, variable, key, value) or setitem(variable, tx, key, value)

    return write


def copied(tx, variable, key, value):
    """Of `part[a:b] = rows`: the method behind the brackets asks whether the first length of the rows is 1, to leave it out; where the part has as many axes that
    is seen by nobody."""
    value, parts = value.realize(), parts_of(key)
    lengths = example(value).shape if type(value) is TensorVariable and isinstance(example(value), torch.Tensor) else ()
    if not lengths or not isinstance(lengths[0], torch.SymInt) or not all(map(is_of_view, parts)) or type(variable) is not TensorVariable:
        return None
    constants = [type(part.value) for part in parts if isinstance(part, ConstantVariable)]
    if rank(variable) + constants.count(type(None)) - constants.count(int) < len(lengths) or can_dispatch_torch_function(tx, [variable, value], {}):
        return None
    BuiltinVariable(operator.getitem).call_function(tx, [variable, key], {}).call_method(tx, "copy_", [value], {})
    return ConstantVariable.create(None)


def is_of_view(part):
    return isinstance(part, SliceVariable) or isinstance(part, ConstantVariable) and type(part.value) in (int, type(None), type(...))


def parts_of(key):
    return [part.realize() for part in (key.realize().items if isinstance(key.realize(), TupleVariable) else [key])]


def selected(tx, variable, key):
    """(the tensor with all numbers selected, the rest of the index), or None where there are none or the index is another one."""
    parts = parts_of(key)
    kinds = [kind_of(part) for part in parts]
    if "number" not in kinds or not is_known(kinds, rank(variable)):
        return None
    if tx.output.current_tracer.parent is not None or torch._C._functorch.peek_interpreter_stack() is not None:
        return None    # inside a body of an operator a number may be one for each element
    return select_numbers(variable, kinds, parts, Operations(tx))


class Operations:
    def __init__(self, tx):
        self.tx, self.rank = tx, rank

    def select(self, variable, axis, part):
        return variable.call_method(self.tx, "select", [ConstantVariable.create(axis), number(self.tx, part)], {})

    def unsqueeze(self, variable, axis):
        return variable.call_method(self.tx, "unsqueeze", [ConstantVariable.create(axis)], {})

    def whole(self):
        return SliceVariable([ConstantVariable.create(None)] * 3, self.tx)


def kind_of(part):
    """"number"; what takes an "axis" of the tensor; "none"; "..."; None for anything else."""
    if isinstance(part, SymNodeVariable):
        return "number" if isinstance(part.sym_num, torch.SymInt) else None
    if isinstance(part, TensorVariable):
        value = example(part)
        whole = isinstance(value, torch.Tensor) and value.dtype in INTEGERS
        return None if not whole else "axis" if value.dim() else "number"
    if isinstance(part, ConstantVariable):
        return {int: "axis", type(None): "none", type(...): "..."}.get(type(part.value))
    return "axis" if isinstance(part, SliceVariable) else None


def number(tx, part):
    return part.call_method(tx, "item", [], {}) if isinstance(part, TensorVariable) else part


def rank(variable):
    return example(variable).dim()


def example(variable):
    return variable.proxy.node.meta.get("example_value")
