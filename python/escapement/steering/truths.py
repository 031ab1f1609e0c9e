"""A truth about sizes where an operator wants a plain one: `scaled_dot_product_attention(..., is_causal=x.shape[1] > 1)`, `x.sum(0, keepdim=n > 4)`.

For Dynamo it is a symbol, which no such argument takes: a graph break, or the function is not compiled at all. The same of what Python does with a truth that
Dynamo does with numbers only (`[a, b][n > 4]`, `-(n > 4)`). It is a choice of the program's like any other: a guard.
"""

import functools
import inspect
import operator
import re

import torch
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable
from torch._dynamo.variables.torch import TorchCtxManagerClassVariable, TorchInGraphFunctionVariable

OF_PYTHON = frozenset((operator.getitem, operator.is_, operator.is_not, operator.neg, operator.pos, operator.invert, operator.xor, operator.truediv, operator.lt,
                       operator.le, operator.gt, operator.ge, operator.ixor, operator.itruediv, operator.lshift, operator.rshift, max, min, abs, divmod))
EVERYWHERE = range(64)


def install(current_session):
    def function(call):
        @functools.wraps(call)
        def plain(variable, tx, args, kwargs):
            if any(map(is_truth, (*args, *kwargs.values()))) and current_session() is not None:
                args, kwargs = told(tx, flags(variable.value), args, kwargs)
            return call(variable, tx, args, kwargs)

        return plain

    def method(call):
        @functools.wraps(call)
        def plain(tensor, tx, name, args, kwargs):
            if any(map(is_truth, (*args, *kwargs.values()))) and current_session() is not None:
                (_, *args), kwargs = told(tx, flags_of_operator(name), (tensor, *args), kwargs)
            return call(tensor, tx, name, args, kwargs)

        return plain

    def builtin(call):
        @functools.wraps(call)
        def plain(variable, tx, args, kwargs):
            if variable.fn in OF_PYTHON and any(map(is_truth, args)) and current_session() is not None:
                args, kwargs = told(tx, EVERYWHERE, args, kwargs)
            return call(variable, tx, args, kwargs)

        return plain

    def manager(call):
        @functools.wraps(call)
        def plain(variable, tx, args, kwargs):
            if any(map(is_truth, (*args, *kwargs.values()))) and current_session() is not None:
                args, kwargs = told(tx, (*EVERYWHERE, *kwargs), args, kwargs)
            return call(variable, tx, args, kwargs)

        return plain

    BuiltinVariable.call_function = builtin(BuiltinVariable.call_function)
    TorchCtxManagerClassVariable.call_function = manager(TorchCtxManagerClassVariable.call_function)
    TorchInGraphFunctionVariable.call_function = function(TorchInGraphFunctionVariable.call_function)
    TensorVariable.call_method = method(TensorVariable.call_method)


def is_truth(variable):
    return isinstance(variable, SymNodeVariable) and isinstance(variable.sym_num, torch.SymBool) and variable.sym_num.node.has_hint()


def told(tx, wanted, args, kwargs):
    def plain(place, variable):
        return ConstantVariable.create(variable.evaluate_expr(tx.output)) if place in wanted and is_truth(variable) else variable

    return [plain(*item) for item in enumerate(args)], {name: plain(name, variable) for name, variable in kwargs.items()}


def flags(function):
    """Places and names of the arguments that are true or false and nothing else."""
    name = getattr(function, "__name__", "")
    written = getattr(function, "__module__", None) == "torch.nn.functional" and inspect.isfunction(function)
    return flags_of_python(function) if written else flags_of_operator(name)


@functools.cache
def flags_of_python(function):
    parameters = enumerate(inspect.signature(function).parameters.values())
    return frozenset(place for number, parameter in parameters if "bool" in str(parameter.annotation) or isinstance(parameter.default, bool)
                     for place in (number, parameter.name))


@functools.cache
def flags_of_operator(name):
    """In every overload that has an argument of that place or name."""
    kinds = {}
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{re.sub('[^A-Za-z0-9_]', '', name)}"):
        for number, argument in enumerate(schema.arguments):
            for place in (argument.name,) if argument.kwarg_only else (number, argument.name):
                kinds.setdefault(place, set()).add(str(argument.type))
    return frozenset(place for place, found in kinds.items() if found <= {"bool", "Optional[bool]"})
