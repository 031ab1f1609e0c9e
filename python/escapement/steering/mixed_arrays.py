"""Operators between a tensor and an array of NumPy. Dynamo takes the array for a tensor. Python asks both: NumPy computes by rules of its own (float32 with an array
of int64 is float64), or there is a TypeError, as where the array stands first and where they are put in order. Such an operator is a graph break, and the program's
own; not arithmetic of a tensor with an array of its own dtype, nor with a number of NumPy's.
"""

import functools
import operator

from torch._dynamo import exc as dynamo_exc
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.tensor import NumpyNdarrayVariable, TensorVariable

NAMES = ("add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift iadd isub imul itruediv ifloordiv imod ipow imatmul iand ior ixor ilshift irshift "
         "eq ne lt le gt ge").split()
OPERATORS = frozenset(getattr(operator, name) for name in NAMES)
ORDERED = operator.lt, operator.le, operator.gt, operator.ge


def install(current_session):
    BuiltinVariable.call_function = outside_of_graphs(BuiltinVariable.call_function, current_session)


def outside_of_graphs(call_function, current_session):
    @functools.wraps(call_function)
    def call(function, tx, args, kwargs):
        if function.fn in OPERATORS and len(args) == 2 and current_session() is not None and may_break(tx) and are_mixed(function.fn, *args):
            dynamo_exc.unimplemented(gb_type="escapement: an array of NumPy and a tensor", context=function.fn.__name__, hints=[],
                                     explanation="which of both computes is decided by Python")
        return call_function(function, tx, args, kwargs)

    return call


def may_break(tx):
    return not (tx.one_graph or tx.error_on_graph_break)


def are_mixed(function, *args):
    left, right = (arg.realize() for arg in args)
    if not all(isinstance(arg, TensorVariable) for arg in (left, right)) or is_array(left) == is_array(right):
        return False
    array, tensor = (left, right) if is_array(left) else (right, left)
    return example(array).dim() > 0 and (array is left or function in ORDERED or example(array).dtype != example(tensor).dtype)


def is_array(variable):
    return isinstance(variable, NumpyNdarrayVariable)


def example(variable):
    return variable.as_proxy().node.meta["example_value"]
