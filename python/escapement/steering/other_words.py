"""Functions of torch that Dynamo says in other words, which are not quite what they compute: kernels round once where the words round at each step (which shows in
half types), take a number as the dtype's own (`x.addcmul_(y, z, value=0.5)` of integers adds nothing), and refuse what the words take. The words are there for
numbers that are tensors. So where a number is one of Python's these are the operators themselves; but a size or a float that varies stays in words where gradients
are wanted, whose formulas take it for a constant.

`torch.full` of a tensor has the dtype of a number of that kind, where Dynamo fills a tensor of the default dtype; and it refuses what wants a gradient.
"""

import functools

import torch
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable
from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

METHODS = "addcmul_", "addcdiv_"
COMPLEX = {torch.float64: torch.complex128, torch.float16: torch.complex32}


def install(current_session):
    handlers = TorchInGraphFunctionVariable._get_handlers()
    for function, ours in ((torch.addcdiv, with_numbers), (torch._foreach_lerp_, with_numbers), (torch.full, of_dtype)):
        handlers[function] = ours(handlers[function], current_session)
    for name in METHODS:
        setattr(TensorVariable, f"method_{name}", method(getattr(TensorVariable, f"method_{name}"), current_session))


def possible():
    handlers = getattr(TorchInGraphFunctionVariable, "_get_handlers", dict)()
    return (all(function in handlers for function in (torch.addcdiv, torch._foreach_lerp_, torch.full))
            and all(hasattr(TensorVariable, f"method_{name}") for name in METHODS))


def with_numbers(in_words, current_session):
    @functools.wraps(in_words)
    def handle(function, tx, *args, **kwargs):
        numbers = kwargs.get("value", args[-1] if args else None)
        return None if current_session() is not None and is_number(numbers, args) else in_words(function, tx, *args, **kwargs)

    return handle


def method(in_words, current_session):
    @functools.wraps(in_words)
    def call(tensor, tx, *args, **kwargs):
        own = current_session() is not None and is_number(kwargs.get("value"), (tensor, *args))
        return None if own else in_words(tensor, tx, *args, **kwargs)

    return call


def is_number(value, tensors):
    value = None if value is None else value.realize()
    if isinstance(value, SymNodeVariable):
        return not (torch.is_grad_enabled() and any(isinstance(part := tensor.realize(), TensorVariable) and part.requires_grad for tensor in tensors))
    return isinstance(value, ConstantVariable)


def of_dtype(in_words, current_session):
    @functools.wraps(in_words)
    def full(function, tx, size, fill_value, **kwargs):
        if current_session() is not None and fill_value.is_tensor():
            if fill_value.realize().requires_grad:
                return None
            dtype = dtype_of_number(fill_value.realize().dtype)
            if dtype is not None and ("dtype" not in kwargs or kwargs["dtype"].is_constant_none()):
                kwargs = {**kwargs, "dtype": ConstantVariable.create(dtype)}
        return in_words(function, tx, size, fill_value, **kwargs)

    return full


def dtype_of_number(dtype):
    """None: the default."""
    if dtype.is_complex:
        return COMPLEX.get(torch.get_default_dtype(), torch.complex64)
    return None if dtype.is_floating_point else torch.bool if dtype is torch.bool else torch.int64
