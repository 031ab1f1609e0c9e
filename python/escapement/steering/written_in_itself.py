"""Whether elements of a tensor that is written share memory. Torch asks it of every copy into a part of a tensor (`y[:, 0] = z`), and first whether that part
happens to be dense: questions about sizes of 0 and 1, each a compile, of which nobody sees the answer. What it wants to know is whether a length was
expanded, and that is an axis whose stride is 0: only such an axis is asked for its size, which is a guard, because eager refuses to write
more than one element there. A stride that is another number at another call is looked at when the copy is made, where ATen refuses it.

With gradients AOTAutograd has operators that return what was written (`aten.copy`, `slice_scatter`). They make memory laid out as the tensor's; how much is
counted as if there were elements, which is negative for some tensors without any, and so a guard. Of `aten.copy` the parts are C++, and ask as above.
"""

import functools

import torch
from torch import _meta_registrations as descriptions
from torch import _prims_common as common
from torch._C import DispatchKey

COPY, KEY = torch.ops.aten.copy.default, DispatchKey.Meta
NAME, LENGTH = "_debug_has_internal_overlap", "compute_required_storage_length"
NO, YES = 0, 1   # at::MemOverlap


def install(current_session):
    setattr(torch, NAME, by_strides(getattr(torch, NAME), current_session))
    setattr(common, LENGTH, at_least_none(getattr(common, LENGTH), current_session))
    COPY.py_impl(KEY)(in_parts(current_session))


def possible():
    return (hasattr(torch, NAME) and hasattr(common, LENGTH) and hasattr(descriptions, "_scatter_meta_output") and KEY not in COPY.py_kernels
            and COPY.has_kernel_for_dispatch_key(KEY))


def by_strides(torchs, current_session):
    @functools.wraps(torchs)
    def overlap(tensor):
        if current_session() is None or tensor.layout is not torch.strided or not tensor._has_symbolic_sizes_strides:
            return torchs(tensor)
        return YES if any(is_zero(stride) and size > 1 for size, stride in zip(tensor.shape, tensor.stride())) else NO

    return overlap


def is_zero(stride):
    """Now; and then at every call of this version."""
    known = stride.node.hint if isinstance(stride, torch.SymInt) else stride
    return known == 0 and stride == 0


def in_parts(current_session):
    def copy(self, src, non_blocking=False):
        if current_session() is None or self.layout is not torch.strided:
            return COPY._op_dk(KEY, self, src, non_blocking)
        return descriptions._scatter_meta_output(self).copy_(src, non_blocking)

    return copy


def at_least_none(length_of, current_session):
    @functools.wraps(length_of)
    def length(*args):
        found = length_of(*args)
        return found if current_session() is None else torch.sym_max(found, 0)

    return length
