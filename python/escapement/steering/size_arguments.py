"""Schemas that want a number where programs give a size: `F.avg_pool2d(x, x.shape[-2:])`, `torch.linspace(0, 1, x.shape[-1])`. Dynamo pins the size, so
each value would be a compile, the third one a graph break. Where a size is a symbol Dynamo traces what recording/size_parts.py says of the function instead.
"""

import functools

import torch
import torch.nn.functional as F
from torch._dynamo.variables.functions import UserFunctionVariable
from torch._dynamo.variables.lists import BaseListVariable
from torch._dynamo.variables.misc import NumpyVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable
from torch._dynamo.variables.torch import TorchInGraphFunctionVariable
from torch.fx.experimental.symbolic_shapes import has_static_value

from ..core import core
from ..recording import size_parts
from ..recording.size_parts import METHODS, OF_IMAGES, OF_ITS_SIZES
from . import math_parts

size_parts.has_static_value = has_static_value
# Of Python and made of others: these are traced into.
PARTS = {function: function for function in (F.max_pool1d, F.max_pool2d, F.max_pool3d, F.lp_pool1d, F.lp_pool2d, F.lp_pool3d, F.affine_grid)}
PARTS.update(size_parts.PARTS)


def install(current_session):
    core().define_libm()
    PARTS.update(math_parts.parts_of_math())
    TorchInGraphFunctionVariable.call_function = in_parts(TorchInGraphFunctionVariable.call_function, current_session, PARTS.get)
    NumpyVariable.call_function = in_parts(NumpyVariable.call_function, current_session, lambda function: math_parts.parts_of_numpy().get(function))
    for name, parts in METHODS.items():
        setattr(TensorVariable, f"method_{name}", method(parts, current_session))


def in_parts(call_function, current_session, known):
    @functools.wraps(call_function)
    def call(function, tx, args, kwargs):
        parts = known(function.value) if current_session() is not None else None
        found = traced(tx, parts, args, kwargs) if parts and may_be_read(tx, parts) else None
        return call_function(function, tx, args, kwargs) if found is None else found

    return call


def method(parts, current_session):
    def call(tensor, tx, *args, **kwargs):
        return None if current_session() is None else traced(tx, parts, (tensor, *args), kwargs)   # nothing: as torch does
    return call


def may_be_read(tx, parts):
    """What the C library computes is a value of the data: a branch on it breaks the graph, which must be possible."""
    return not (parts in math_parts.AT_RUN_TIME and (tx.one_graph or tx.error_on_graph_break))


def traced(tx, parts, args, kwargs):
    if parts not in OF_ITS_SIZES and not any(map(holds_symbol, (*args, *kwargs.values()))):
        return None
    if parts in OF_IMAGES and not (args and in_rows(args[0])):
        return None
    found = UserFunctionVariable(parts).call_function(tx, list(args), dict(kwargs))
    return None if found.is_constant_none() else found


def holds_symbol(variable):
    """Whether it is a size, a number made of some, or a list of such."""
    variable = variable.realize()
    if isinstance(variable, SymNodeVariable):
        return variable.python_type() in (int, float)
    return isinstance(variable, BaseListVariable) and any(map(holds_symbol, variable.items))


def in_rows(variable):
    """Of images in channels last torch's pools are, too, and these are not. Asked of what Dynamo knows, which is no guard."""
    variable = variable.realize()
    known = variable.as_proxy().node.meta.get("example_value") if isinstance(variable, TensorVariable) else None
    return isinstance(known, torch.Tensor) and known.dim() > 0 and type(known.stride(-1)) is int and known.stride(-1) == 1
