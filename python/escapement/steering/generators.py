"""`torch.randn(sizes, generator=None)`: the operators that take a generator take no symbols for sizes, so that Dynamo would give up the whole frame.
Where there is none the program means the operator without.
"""

import functools

import torch
from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

MAKERS = frozenset((torch.rand, torch.randn, torch.randint, torch.randperm))


def install(current_session):
    TorchInGraphFunctionVariable.call_function = without_none(TorchInGraphFunctionVariable.call_function, current_session)


def without_none(call_function, current_session):
    @functools.wraps(call_function)
    def call(function, tx, args, kwargs):
        if function.value in MAKERS and "generator" in kwargs and current_session() is not None and kwargs["generator"].is_constant_none():
            kwargs = {name: value for name, value in kwargs.items() if name != "generator"}
        return call_function(function, tx, args, kwargs)

    return call
