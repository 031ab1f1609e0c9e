"""Operators that a graph without gradients keeps whole, described by what they return. Torch would take them apart to find out, and ask on the way
whether sizes are 1, of steps that nobody sees: each answer is a compile.

A description has no values. So it may be given only to those who ask for sizes and strides, which is Dynamo with its fake tensors; whoever writes down
what is done to them (AOTAutograd, by functional tensors and proxies) must see the steps. Copies have steps of their own for them, which ask nothing:
a copy is right where eager makes a view, unless somebody can tell (doubtful_copies.py); then the frame is traced again with layouts as guards.
"""

import contextlib
import functools
import math

import torch
from torch._C import _get_dispatch_mode, _TorchDispatchModeKey
from torch._prims_common import canonicalize_dim, infer_size, is_contiguous_or_false
from torch._subclasses.fake_impls import _compute_stride
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

aten = torch.ops.aten
WRITING_DOWN = _TorchDispatchModeKey.FUNCTIONAL, _TorchDispatchModeKey.PROXY


@contextlib.contextmanager
def asking_by_operators():
    """`x.contiguous()` asks before it calls the operator. Compiles are serialised by Dynamo, so the classes can be changed for the time of one."""
    classes = FakeTensor, FunctionalTensor
    before = [vars(tensors).get("contiguous") for tensors in classes]
    for tensors in classes:
        tensors.contiguous = lambda self, *, memory_format=torch.contiguous_format: aten.contiguous.default(self, memory_format=memory_format)
    try:
        yield
    finally:
        for tensors, method in zip(classes, before):
            if method is None:
                del tensors.contiguous
            else:
                tensors.contiguous = method


def kernel_of(parts, made, answers):
    """An operator as `made` has it: as described for who wants no gradients; where steps are written down, in steps, if there are any. As torch takes it
    apart where dtypes or devices differ, or `made` returns None."""
    as_described, in_steps = made

    def kernel(*args, **kwargs):
        given = [*tensors_in((*args, *kwargs.values()))]
        described = are_only_described(given) and not are_trained(given)
        made = as_described if described else in_steps and not answers.layout and are_traced(given) and in_steps
        found = made(*args, **kwargs) if made and are_usual(given) else None
        return parts(*args, **kwargs) if found is None else found

    return kernel


def new(tensor, sizes):
    return tensor.new_empty(sizes)


def copied(tensor, sizes):
    return aten._unsafe_view(tensor.clone(memory_format=torch.contiguous_format), sizes)


def are_only_described(given):
    return all(isinstance(tensor, FakeTensor) for tensor in given) and all(_get_dispatch_mode(key) is None for key in WRITING_DOWN)


def are_traced(given):
    """Not those that torch computes sizes with inside of one operator."""
    return all(isinstance(tensor, (FakeTensor, FunctionalTensor)) for tensor in given)


def are_trained(given):
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given)


def are_usual(given):
    of_one_type = len({tensor.dtype for tensor in given if tensor.is_floating_point()}) < 2 and len({tensor.device for tensor in given}) == 1
    device = given[0].device.type
    return of_one_type and not (torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device))   # meta has none


def tensors_in(arguments):
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            yield argument
        elif isinstance(argument, (list, tuple)):
            yield from tensors_in(argument)


# Matrices: whether ATen folds axes into one, and copies for that, nobody sees. The result is contiguous.

def linear(input, weight, bias=None):
    if input.dtype != weight.dtype or input.dim() < 3 or weight.dim() != 2 or not is_vector_of(bias, weight.shape[0]) or input.shape[-1] != weight.shape[1]:
        return None
    return input.new_empty([*input.shape[:-1], weight.shape[0]])


def linear_in_steps(input, weight, bias=None):
    if is_contiguous_or_false(input) or linear(input, weight, bias) is None:
        return None
    product = aten.matmul.default(input, weight.t())
    return product if bias is None else product + bias


def matmul(self, other):
    if self.dtype != other.dtype or self.dim() < 3 or other.dim() == 0:
        return None
    if other.dim() > 2:
        return matrices_of_batches(self, other)
    return self.new_empty([*self.shape[:-1], *other.shape[1:]]) if self.shape[-1] == other.shape[0] else None


def matrices_of_batches(self, other):
    """Of the same batches: others are broadcast, and questions of a size of 1 decide about sizes then."""
    if self.dim() != other.dim() or not all(statically_known_true(a == b) for a, b in zip(self.shape[:-2], other.shape[:-2])):
        return None
    return self.new_empty([*self.shape[:-1], other.shape[-1]]) if self.shape[-1] == other.shape[-2] else None


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    """Of lines: they are made contiguous first. (Of images the memory format is kept.)"""
    if input.dim() != 3 or input.shape[1] % num_groups or not all(is_vector_of(vector, input.shape[1]) for vector in (weight, bias)):
        return None
    return input.new_empty(input.shape)


def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """The memory format of what it reads decides where an image of one row has its channels; nobody sees that image. The result is contiguous."""
    if input.dim() != 3 or weight.dim() != 3 or not is_vector_of(bias, weight.shape[0]) or input.dtype != weight.dtype:
        return None
    step, around, apart = (the_one(number) for number in (stride, padding, dilation))
    if groups < 1 or step < 1 or around < 0 or apart < 1 or weight.shape[0] % groups or input.shape[1] != weight.shape[1] * groups:
        return None
    room = input.shape[2] + 2 * around - apart * (weight.shape[2] - 1) - 1
    return input.new_empty([input.shape[0], weight.shape[0], room // step + 1]) if room >= 0 else None


def conv1d_in_steps(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """What is made of one position has one: otherwise the memory format shows there."""
    of_one = 2 * the_one(padding) - the_one(dilation) * (weight.shape[-1] - 1) < the_one(stride)
    if is_contiguous_or_false(input) or not of_one or conv1d(input, weight, bias, stride, padding, dilation, groups) is None:
        return None
    numbers = ([the_one(number)] for number in (stride, padding, dilation))
    return aten.convolution.default(copied(input, input.shape), weight, bias, *numbers, False, [0], groups)


def conv1d_in_words(input, weight, bias=None, stride=1, padding="valid", dilation=1, groups=1):
    if padding == "valid":
        return conv1d(input, weight, bias, stride, 0, dilation, groups)
    room = the_one(dilation) * (weight.shape[-1] - 1)
    if padding != "same" or the_one(stride) != 1 or conv1d(input, weight, bias, 1, room, dilation, groups) is None:
        return None
    return input.new_empty([input.shape[0], weight.shape[0], input.shape[2]])


def the_one(number):
    return number[0] if isinstance(number, (list, tuple)) else number


def is_vector_of(vector, count):
    return vector is None or (vector.dim() == 1 and vector.shape[0] == count)


# Copies, where eager makes a view at some sizes, or hands back its argument. Asked in the way that oblivious.py answers: no size is taken for 1 unless
# the program looks at layouts, and a compiled graph decides anew at each call.

def contiguous(copy, self, memory_format=torch.contiguous_format):
    if memory_format is not torch.contiguous_format or has_a_layout_of_its_own(self) or is_contiguous_or_false(self):
        return None
    return copy(self, self.shape) if copies_at_first(self, self.shape) else None


def reshape(copy, self, shape):
    if has_a_layout_of_its_own(self) or is_contiguous_or_false(self):
        return None
    sizes = infer_size(shape, self.numel())
    if _compute_stride(self.shape, self.stride(), sizes, size_oblivious=True) is not None:
        return self.view(sizes)
    return copy(self, sizes) if copies_at_first(self, sizes) else None


def reshape_as(copy, self, other):
    return reshape(copy, self, other.shape)


def ravel(copy, self):
    return reshape(copy, self, [-1])


def flatten(copy, self, start_dim=0, end_dim=-1):
    if self.dim() == 0:
        return None
    first, last = (canonicalize_dim(self.dim(), axis) for axis in (start_dim, end_dim))
    if first >= last:
        return None
    return reshape(copy, self, [*self.shape[:first], math.prod(self.shape[first:last + 1]), *self.shape[last + 1:]])


def has_a_layout_of_its_own(tensor):
    """Or sizes that only the data tell."""
    return tensor.dim() == 0 or tensor.is_complex() or tensor.layout is not torch.strided or not all(map(is_known, (*tensor.shape, *tensor.stride())))


def is_known(size):
    return not isinstance(size, torch.SymInt) or size.node.has_hint()


def copies_at_first(tensor, sizes):
    """False: at the sizes that were given eager makes a view, and not for want of elements, so strides have something in common that no size says."""
    old, strides, new = ([seen(size) for size in numbers] for numbers in (tensor.shape, tensor.stride(), sizes))
    return 0 in old or 1 in old or (_compute_stride(old, strides, new) is None if old != new else not in_order(old, strides))


def in_order(sizes, strides):
    return all(strides[axis] == math.prod(sizes[axis + 1:]) for axis in range(len(sizes)))


def seen(size):
    return size.node.hint if isinstance(size, torch.SymInt) else size


PARTS = {aten.linear.default: (linear, linear_in_steps), aten.matmul.default: (matmul, None), aten.group_norm.default: (group_norm, None),
         aten.conv1d.default: (conv1d, conv1d_in_steps), aten.conv1d.padding: (conv1d_in_words, None)}
COPIES = {aten.contiguous.default: contiguous, aten.reshape.default: reshape, aten.reshape_as.default: reshape_as, aten.ravel.default: ravel, aten.flatten.using_ints: flatten}
PARTS |= {operator: (functools.partial(made, new), functools.partial(made, copied)) for operator, made in COPIES.items()}
