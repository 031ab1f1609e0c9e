"""Functions of torch whose schemas want a number where programs give a size: `torch.linspace(0, 1, x.shape[-1])`, `F.avg_pool2d(x, x.shape[-2:])`. Their arguments
are read in C++ before any operator is called, so that each size would be a recording. While one runs, these stand in their places, and say in terms of sizes
what the function does (recording/size_parts.py). As under torch.compile (steering/size_arguments.py).
"""

import functools

import torch
import torch.nn.functional as F

from ..core import core
from ..recording.arithmetic import NUMBERS
from ..recording.size_parts import METHODS, OF_IMAGES, OF_ITS_SIZES, PARTS
from .objects import is_a
from .results import is_recorded
from .tree import TENSORS
from .while_recording import Replaced, Shadowed, all_of

HOMES = torch, F, torch.fft
KINDS = {torch.int64, torch.float32, torch.float64}
MOST = 64   # numbers, each of which is an operator
POOLS = {parts for function, parts in PARTS.items() if "pool" in function.__name__}
PADDING = 3   # at which place


def saying(parts, at_home):
    """`at_home`: the function itself, or what says where it is found."""
    def call(*args, **kwargs):
        if not may_be_said(parts, args, kwargs):
            return at_home(*args, **kwargs)
        core().says_otherwise()
        found = parts(*args, **kwargs)
        return at_home(*args, **kwargs) if found is None else found
    return call


def may_be_said(parts, args, kwargs):
    given = (*args, *kwargs.values())
    if not any(map(holds_size, given)):
        return False
    if any(is_a(value, torch.Tensor) and type(value) not in TENSORS for value in given) or torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    if parts in POOLS and holds_size(kwargs.get("padding", args[PADDING] if len(args) > PADDING else 0)):
        return False
    return parts not in OF_IMAGES or bool(args) and in_rows(args[0])


def holds_size(value):
    if is_a(value, NUMBERS):
        return is_recorded(value)
    return is_a(value, (list, tuple)) and any(map(holds_size, value))


def in_rows(images):
    """Those of channels last have results of channels last."""
    return not is_a(images, torch.Tensor) or images.dim() == 0 or bool(images.stride(-1) == 1)


def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """`torch.tensor` of numbers, in lists of one shape."""
    numbers, shape = [data], []
    while numbers and is_a(numbers[0], (list, tuple)):
        if not all(is_a(item, (list, tuple)) and len(item) == len(numbers[0]) for item in numbers):
            return None
        shape.append(len(numbers[0]))
        numbers = [item for items in numbers for item in items]
    if requires_grad or pin_memory or not 0 < len(numbers) <= MOST or not all(type(number) in (int, float) or is_a(number, (torch.SymInt, torch.SymFloat)) for number in numbers):
        return None
    if dtype is None:
        dtype = torch.get_default_dtype() if any(is_a(number, (float, torch.SymFloat)) for number in numbers) else torch.int64
    if dtype not in KINDS:
        return None
    made = [torch.full((), number, dtype=dtype, device=device) for number in numbers]
    for length in reversed(shape):   # a reshape would be a view, which can be asked for
        made = [torch.stack(made[start:start + length]) for start in range(0, len(made), length)]
    return made[0]


def as_tensor(data, dtype=None, device=None):
    return tensor(data, dtype=dtype, device=device)


SAID = {**{function: parts for function, parts in PARTS.items() if parts not in OF_ITS_SIZES}, torch.tensor: tensor, torch.as_tensor: as_tensor}


def stand_ins():
    for home in HOMES:
        for name, function in list(vars(home).items()):
            parts = SAID.get(function) if is_a(function, (type(torch.linspace), type(len))) else None
            if parts is not None:
                yield Replaced(functools.partial(lambda home: home, home), name, functools.wraps(function)(saying(parts, function)))
    for name, parts in METHODS.items():
        if parts in OF_ITS_SIZES:   # whose numbers of pieces are constants
            continue
        method = getattr(torch.Tensor, name)
        yield Shadowed(torch.Tensor, name, functools.wraps(method)(saying(parts, method)))


sizes_are_said = all_of([*stand_ins()])
