"""Numbers of a recording in an index: `x[n // 2]`, `x[:, t]`, `x[scores.argmax()] = y`. The method behind the brackets reads an integer in C++ before
any operator is called, so that each value would be a recording. The same element is what `select` takes as a symbol; so while a recording runs
such numbers are selected first (recording/index_walk.py), as under torch.compile (steering/index_numbers.py).
"""

import functools

import torch

from ..recording.arithmetic import ours
from ..recording.index_walk import is_known, select_numbers
from .results import is_recorded
from .tree import TENSORS
from .while_recording import Shadowed, all_of

INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)
read, write = torch.Tensor.__getitem__, torch.Tensor.__setitem__


@functools.wraps(read)   # a tensor class of the program's goes by the name
def selecting_read(tensor, index):
    found = selected(tensor, index)
    if found is None:
        return read(tensor, index)
    view, rest = found
    return read(view, tuple(rest)) if rest else view


@functools.wraps(write)
def selecting_write(tensor, index, value):
    found = selected(tensor, index)
    if found is None:
        return write(tensor, index, value)
    view, rest = found
    return write(view, tuple(rest) if rest else ..., value)


def selected(tensor, index):
    """(the tensor with all numbers selected, the rest of the index), or None where none is a symbol or there is something else in the index."""
    parts = index if type(index) is tuple else (index,)
    if not any(map(is_symbol, parts)) or type(tensor) not in TENSORS or torch._C._functorch.peek_interpreter_stack() is not None:
        return None
    kinds = [kind_of(part) for part in parts]
    if not is_known(kinds, tensor.dim()):
        return None
    try:
        return select_numbers(tensor, kinds, parts, Operations)
    except IndexError:
        return None   # the brackets say it in words of their own


class Operations:
    rank, unsqueeze = torch.Tensor.dim, torch.Tensor.unsqueeze

    def select(tensor, axis, part):
        return tensor.select(axis, part.item() if isinstance(part, torch.Tensor) else part)

    def whole():
        return slice(None)


def is_symbol(part):
    if isinstance(part, torch.Tensor):
        return type(part) is torch.Tensor and part.dtype in INTEGERS and part.dim() == 0 and is_recorded(part)
    return type(part).__base__ is torch.SymInt and ours(part.node)


def kind_of(part):
    """"number"; what takes an "axis" of the tensor; "none"; "..."; None for anything else."""
    if type(part) is int or is_symbol(part):
        return "number"
    if isinstance(part, torch.Tensor):
        return "axis" if part.dtype in INTEGERS and part.dim() else None
    return {slice: "axis", type(None): "none", type(...): "..."}.get(type(part))


numbers_select = all_of([Shadowed(torch.Tensor, "__getitem__", selecting_read), Shadowed(torch.Tensor, "__setitem__", selecting_write)])
