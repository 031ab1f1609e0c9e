"""What a program asks of the kind of a tensor that it was given: whether autograd made it, whether it is a view, whether somebody put hooks on it. Dynamo answers from
the tensor at hand, as constants, and guards what its check of tensors compares only: dtype, device, layout, rank, whether gradients are required. Here every other
answer is a guard of its own. So is `isinstance(x, torch.nn.Buffer)`, which asks a mark on a plain tensor.
"""

import functools
import types

import torch
from torch._dynamo import exc as dynamo_exc
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.source import AttrSource, CallFunctionNoArgsSource, GlobalSource
from torch._dynamo.variables import ConstantVariable, builtin
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import TensorVariable

from ..recording.writes import memory_of
from .view_bases import is_base

ASKED = frozenset(name for name, attribute in {**torch._C.TensorBase.__dict__, **torch.Tensor.__dict__}.items() if type(attribute) is types.GetSetDescriptorType)
# Of those: what Dynamo's own check compares, what is a size, what is a tensor made of this one.
CHECKED = frozenset(name for name in ASKED if name.startswith("is_") and name != "is_leaf") | {
    "dtype", "device", "layout", "ndim", "requires_grad", "itemsize", "nbytes", "shape", "T", "H", "mT", "mH", "real", "imag", "data", "__dict__", "__weakref__"}
HELD = ASKED - CHECKED - {"_version", "grad", "_grad"}   # the last two Dynamo guards itself
NOT_FAKED = frozenset(("output_nr", "retains_grad"))   # a fake tensor has answers of its own
OF_ITSELF = frozenset(("is_leaf", "grad_fn", "retains_grad", "output_nr", "_backward_hooks"))   # of `x.contiguous()` those of x, where it is x


def possible():
    return hasattr(builtin.BuiltinVariable, "call_isinstance") and hasattr(builtin.BuiltinVariable, "call_type")


def install(current_session):
    asks = builtin.BuiltinVariable
    TensorVariable.var_getattr = holding(TensorVariable.var_getattr, current_session)
    TensorVariable.call_method = holding_origin(TensorVariable.call_method, current_session)
    asks.call_isinstance = holding_marks(asks.call_isinstance, current_session)
    asks.call_type = of_plain_tensors(asks.call_type, current_session)


def holding(getattr_of, current_session):
    @functools.wraps(getattr_of)
    def var_getattr(variable, tx, name):
        if name == "__class__" and current_session() is not None and variable.class_type is torch.nn.Buffer:
            return plain_tensor(tx)
        found = getattr_of(variable, tx, name)
        if name in OF_ITSELF and current_session() is not None and variable.source is None:
            hold_leaves(tx, variable)
        if name == "_base" and current_session() is not None and variable.source is None:
            hold_origin(tx, variable)
        if name == "_version" and current_session() is not None and is_given(variable):
            hold_inference(tx, variable.source)
        if name in HELD and current_session() is not None and is_given(variable):
            return hold(tx, variable.source, name, found)
        return found

    return var_getattr


def holding_origin(method, current_session):
    @functools.wraps(method)
    def call_method(variable, tx, name, *rest, **named):
        if name == "_is_view" and current_session() is not None and variable.source is None:
            hold_origin(tx, variable)
        return method(variable, tx, name, *rest, **named)

    return call_method


def hold_origin(tx, variable):
    """`x[1:]._base` is x where x is no view itself, and `x.contiguous()` is a view where it is x and x is one."""
    for tracked in origins(tx, variable):
        hold_inference(tx, tracked.source)
        install_guard(AttrSource(tracked.source, "_base").make_guard(GuardBuilder.TENSOR_MATCH if tracked.fake._is_view() else GuardBuilder.CONSTANT_MATCH))


def hold_leaves(tx, variable):
    for tracked in origins(tx, variable):
        install_guard(AttrSource(tracked.source, "is_leaf").make_guard(GuardBuilder.CONSTANT_MATCH))
        tensor = given(tx, tracked.source)
        if tensor is not None and not tensor.is_leaf:
            ask_the_tensor(tx, tracked.source, "autograd made it")


def origins(tx, variable):
    """Arguments in the memory of a tensor that the program has made of them."""
    memory = memory_of(variable.proxy.node.meta.get("example_value"))
    tensors = {tracked.source.name: tracked for tracked in tx.output.shape_env.tracked_fakes or () if isinstance(tracked.fake, torch.Tensor)}
    return [tracked for tracked in tensors.values()
            if memory is not None and memory_of(tracked.fake) == memory and tracked.source.subguards_allowed() and not is_base(tracked.source, tensors)]


def is_given(variable):
    return variable.source is not None and variable.source.subguards_allowed()


def given(tx, source):
    """The tensor itself, as Dynamo's own reads find it; None where it cannot be named so."""
    try:
        return eval(source.name, {"L": tx.output.local_scope, "G": tx.output.global_scope})
    except Exception:
        return None


def hold(tx, source, name, found):
    """A tensor (`x._base`) is another one at each call: what is held is what is of every argument."""
    if isinstance(found, TensorVariable):
        install_guard(AttrSource(source, name).make_guard(GuardBuilder.TENSOR_MATCH))
    elif found is not None and found.is_python_constant():
        install_guard(AttrSource(source, name).make_guard(GuardBuilder.CONSTANT_MATCH))
        tensor = given(tx, source) if name in NOT_FAKED else None
        return found if tensor is None else ConstantVariable.create(getattr(tensor, name))
    return found


def hold_inference(tx, source):
    """A tensor that was made in inference mode has no version, which is an error that a graph would raise where no `try` of the program's is; and its views have no base. Fake
    tensors are never of that kind."""
    install_guard(CallFunctionNoArgsSource(AttrSource(source, "is_inference")).make_guard(GuardBuilder.CONSTANT_MATCH))
    tensor = given(tx, source)
    if tensor is not None and tensor.is_inference():
        ask_the_tensor(tx, source, "it was made in inference mode")


def ask_the_tensor(tx, source, why):
    """Behind a graph break; where none is wanted the fake tensor's answer stands, as with any backend."""
    if not captures_whole(tx):
        dynamo_exc.unimplemented(gb_type="escapement: the kind of a tensor is looked at", context=source.name, explanation=why, hints=[])


def captures_whole(tx):
    return bool(tx.one_graph or tx.error_on_graph_break)


def holding_marks(call_isinstance, current_session):
    @functools.wraps(call_isinstance)
    def call(builtin_variable, tx, value, kind):
        if isinstance(value, TensorVariable) and current_session() is not None and is_given(value) and asks_for_buffers(kind):
            install_guard(value.source.make_guard(functools.partial(GuardBuilder.HASATTR, attr="_is_buffer")))
        return call_isinstance(builtin_variable, tx, value, kind)

    return call


def asks_for_buffers(kind):
    kinds = kind.as_python_constant() if kind.is_python_constant() else ()
    return torch.nn.Buffer in (kinds if isinstance(kinds, tuple) else (kinds,))


def of_plain_tensors(call_type, current_session):
    """What `torch.nn.Buffer(...)` makes is a plain tensor; to Dynamo it is of that class."""
    @functools.wraps(call_type)
    def call(builtin_variable, tx, value):
        if current_session() is None or not isinstance(value, TensorVariable) or value.class_type is not torch.nn.Buffer:
            return call_type(builtin_variable, tx, value)
        return plain_tensor(tx)

    return call


def plain_tensor(tx):
    return VariableTracker.build(tx, torch.Tensor, AttrSource(GlobalSource(tx.output.install_global_by_id("", torch)), "Tensor"))
