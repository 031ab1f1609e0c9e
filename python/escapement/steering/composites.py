"""Composites of ATen that read sizes as numbers where they need none: while a frame of ours is traced they would pin each size, and every other one would
be a compile. Here are the same parts in terms that take symbols. Only sizes and strides of these matter without gradients, since a graph
keeps such an operator whole; with them AOTAutograd takes it apart as it stands here.
"""

import contextlib
import functools

import torch
from torch._C import DispatchKey
from torch._prims_common import canonicalize_dim

from . import recurrent, whole_operators

aten = torch.ops.aten
KEY = DispatchKey.CompositeImplicitAutograd
KEYS = KEY, DispatchKey.Autograd


def max_pool1d(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    def in_a_plane(number, other):
        number = [*number] if isinstance(number, (list, tuple)) else [number]
        return [other, *number] if number else []

    sizes = in_a_plane(kernel_size, 1), in_a_plane(stride, 1), in_a_plane(padding, 0), in_a_plane(dilation, 1)
    return aten.max_pool2d_with_indices(self.unsqueeze(-2), *sizes, ceil_mode)[0].squeeze(-2)


def take_along_dim(self, indices, dim=None):
    if dim is None:
        return self.reshape(-1).gather(0, indices.reshape(-1))
    if self.dim() != indices.dim():
        raise RuntimeError(f"torch.take_along_dim(): input and indices should have the same number of dimensions, but got {self.dim()} dimensions for input, "
                           f"and {indices.dim()} dimensions for indices")
    dim = canonicalize_dim(self.dim(), dim, wrap_scalar=False)   # raises what eager raises
    return expanded(self, indices, dim).gather(dim, expanded(indices, self, dim))


def expanded(tensor, other, dim):
    """To the sizes of both, but for its own along `dim`."""
    wanted = [*other.shape]
    wanted[dim] = tensor.shape[dim]
    return tensor.expand(torch.broadcast_shapes(tensor.shape, wanted))


def kron(self, other):
    rank = max(self.dim(), other.dim())
    left, right = ([1] * (rank - tensor.dim()) + [*tensor.shape] for tensor in (self, other))
    outer = [part for size in left for part in (size, 1)]
    inner = [part for size in right for part in (1, size)]
    return aten._unsafe_view(self.reshape(outer) * other.reshape(inner), [a * b for a, b in zip(left, right)])   # raises where eager does


def pad_circular(self, pad):
    """Parts side by side. ATen writes them one by one into a new tensor, of which a functional graph makes a copy of everything for each."""
    spatial = len(pad) // 2
    if self.dim() != spatial + 2 or any(size < 0 for size in pad):   # what is cut off, or what ATen refuses
        return aten._pad_circular.default._op_dk(KEY, self, pad)
    for axis, (before, after) in zip(range(-1, -spatial - 1, -1), zip(pad[::2], pad[1::2])):
        size = self.shape[axis]
        if before > size or after > size:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        parts = [self.narrow(axis, size - before, before), self, self.narrow(axis, 0, after)]
        self = torch.cat([part for part, given in zip(parts, (before != 0, True, after != 0)) if given], axis) if before != 0 or after != 0 else self
    return self if any(size != 0 for size in pad) else self.clone()


def cross_entropy_loss(self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    """Smoothed, with weights: ATen asks how many weights there are, and picks those that count, whose number only the data tell."""
    if weight is None or weight.dim() != 1 or not 0 < label_smoothing <= 1 or target.is_floating_point():
        return aten.cross_entropy_loss.default._op_dk(KEY, self, target, weight, reduction, ignore_index, label_smoothing)
    axis = min(self.dim() - 1, 1)
    logs, counts = self.log_softmax(axis), target != ignore_index
    own = aten.nll_loss_nd(logs, target, weight, reduction, ignore_index)
    weights = weight.view([-1] + [1] * (self.dim() - axis - 1))
    others = (-(logs * weights).sum(axis)).masked_fill(~counts, 0)
    if reduction != 0:
        others = others.sum()
    if reduction == 1:
        others = others / torch.where(counts, weight[torch.where(counts, target, 0)], 0).sum()
    return (1 - label_smoothing) * own + others * (label_smoothing / self.shape[axis])


PARTS = {aten.cross_entropy_loss.default: cross_entropy_loss, aten.max_pool1d.default: max_pool1d, aten.take_along_dim.default: take_along_dim, aten.kron.default: kron, aten._pad_circular.default: pad_circular}


def multilabel_margin_loss(self, target, reduction):
    """Labels behind a row's first -1 do not count. (They do in torch's own parts, which autograd's tracing would take.)"""
    shape, self, target = target.shape, torch.atleast_2d(self), torch.atleast_2d(target)
    torch._check(len(shape) <= 2 and self.shape[1] != 0, lambda: f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(shape)}")
    torch._check(target.shape == self.shape, lambda: f"inconsistent target size: {list(shape)} for input of size: {list(self.shape)}")
    classes = torch.arange(self.shape[1], device=target.device)
    end = torch.where(target == -1, classes, self.shape[1]).amin(-1, keepdim=True)
    labels = torch.where(classes < end, target, -1)
    is_target = (classes == labels.unsqueeze(-1)).any(1)
    margins = (1 - self.gather(1, labels.clamp_min(0)).unsqueeze(-1) + self.unsqueeze(1)).clamp_min(0)
    counted = (labels != -1).unsqueeze(-1) & ~is_target.unsqueeze(1)
    losses = torch.where(counted, margins, 0).sum((1, 2)) / self.shape[1]
    loss = losses.mean() if reduction == 1 else losses.sum() if reduction == 2 else losses.reshape(shape[:-1])
    return loss, is_target.to(self.dtype).reshape(shape)


CORRECTED = {aten.multilabel_margin_loss_forward.default: multilabel_margin_loss}   # where torch's parts give something else than its kernels

WHOLE = {**{operator: (made, None) for operator, made in recurrent.PARTS.items()}, **whole_operators.PARTS}


@contextlib.contextmanager
def by_symbols(answers):
    """`answers`: oblivious.Answers of the compile. Compiles are serialised by Dynamo, so torch's own table can be changed for the time of one."""
    before = {(operator, key): operator.py_kernels.get(key) for operator in (*PARTS, *WHOLE, *CORRECTED) for key in KEYS}
    for operator, parts in PARTS.items():
        enter(operator, KEY, parts)
    for operator, parts in CORRECTED.items():
        enter(operator, DispatchKey.Autograd, parts)
    for operator, made in WHOLE.items():
        for key in KEYS:
            parts = before[operator, key] or (functools.partial(operator._op_dk, KEY) if key is KEY else None)   # else ATen's own
            enter(operator, key, parts and whole_operators.kernel_of(parts, made, answers))
    try:
        yield
    finally:
        for (operator, key), kernel in before.items():
            enter(operator, key, kernel)


def enter(operator, key, kernel):
    if kernel is None:
        operator.py_kernels.pop(key, None)
    else:
        operator.py_kernels[key] = kernel
    operator._dispatch_cache.clear()
