"""Operators that a graph without gradients keeps whole, described by what they return. Torch would take them apart to find out, and ask on the way
whether sizes are 1, of steps that nobody sees: each answer is a compile.

A description has no values. So it may be given only to those who ask for sizes and strides, which is Dynamo with its fake tensors; whoever writes down
what is done to them (AOTAutograd, by functional tensors and proxies) must see the steps.
"""

import torch
from torch._C import _get_dispatch_mode, _TorchDispatchModeKey
from torch._subclasses.fake_tensor import FakeTensor

aten = torch.ops.aten
WRITING_DOWN = _TorchDispatchModeKey.FUNCTIONAL, _TorchDispatchModeKey.PROXY


def outside_of_training(parts, made):
    """An operator as `made` describes it. As torch takes it apart where somebody wants gradients or another dtype, and where `made` returns None."""
    def kernel(*args, **kwargs):
        given = [*tensors_in((*args, *kwargs.values()))]
        found = made(*args, **kwargs) if are_only_described(given) and are_usual(given) else None
        return parts(*args, **kwargs) if found is None else found

    return kernel


def are_only_described(given):
    return all(isinstance(tensor, FakeTensor) for tensor in given) and all(_get_dispatch_mode(key) is None for key in WRITING_DOWN)


def are_usual(given):
    trained = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given)
    of_one_type = len({tensor.dtype for tensor in given if tensor.is_floating_point()}) == 1
    return not trained and of_one_type and not torch.is_autocast_enabled(given[0].device.type)


def tensors_in(arguments):
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            yield argument
        elif isinstance(argument, (list, tuple)):
            yield from tensors_in(argument)


# A tensor of several axes and a matrix: whether ATen folds the axes into one, and copies for that, nobody sees. The result is contiguous.

def linear(input, weight, bias=None):
    plain = bias is None or (bias.dim() == 1 and bias.shape[0] == weight.shape[0])
    if not plain or input.dim() < 3 or weight.dim() != 2 or input.shape[-1] != weight.shape[1]:
        return None
    return input.new_empty([*input.shape[:-1], weight.shape[0]])


def matmul(self, other):
    if self.dim() < 3 or other.dim() not in (1, 2) or self.shape[-1] != other.shape[0]:
        return None
    return self.new_empty([*self.shape[:-1], *other.shape[1:]])


PARTS = {aten.linear.default: linear, aten.matmul.default: matmul}
