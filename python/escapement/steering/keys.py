"""What makes another version of a function without counting as a recompile: its key.

A key is rank, dtype, device and layout class of every tensor the frame can see, also inside of objects, which module it belongs to, and
torch's modes. Sizes and numbers are never part of it; neither is the length of a list (that is structure, and counts).
"""

import types

import torch

from ..limits import KEY_DEPTH, KEY_VALUES

NOT_LOOKED_INTO = (type, types.ModuleType, types.FunctionType, types.MethodType)


def frame_key(values, closure=(), names=()):
    """`values`: the frame's locals by name; `closure`: its cells, in the order of `names`."""
    seen = {**values, **{name: cell.cell_contents for name, cell in zip(names, closure) if not is_empty(cell)}}
    looked_at = set()
    parts = [part for name in sorted(seen) for part in value_key(name, seen[name], KEY_DEPTH, looked_at)]
    return (*modes(), *parts)


def modes():
    """Each of these is a guard of Dynamo's on the state of torch; the number of threads is one of them."""
    return (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"), torch.get_default_dtype(),
            torch.get_num_threads())


def value_key(name, value, depth, looked_at):
    """`looked_at`: the identities of the containers so far; none is entered twice."""
    if isinstance(value, torch.Tensor):
        return [(name, value.dim(), value.dtype, str(value.device), value.requires_grad, layout_class(value))]
    if isinstance(value, torch.nn.Module):
        return [(name, id(value))]
    inside = contents(value) if depth and id(value) not in looked_at and len(looked_at) < KEY_VALUES else ()
    if inside:
        looked_at.add(id(value))
    parts = (part for key, item in inside for part in value_key((name, key), item, depth - 1, looked_at))
    return list(dict.fromkeys(parts))


def contents(value):
    """What may hold tensors, each with its name in the key. Where in a list they stand is no part of it."""
    if isinstance(value, dict):
        return [(str(key), item) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [("item", item) for item in value]
    own = getattr(value, "__dict__", None) if not isinstance(value, NOT_LOOKED_INTO) else None
    return list(own.items()) if type(own) is dict else ()


def layout_class(value):
    """How the strides follow from the sizes. Dynamo infers each stride as the product of another dim's size and stride and guards
    on that, so the tensors which can share a version are those of one pattern. A size of 0 inside breaks every pattern (torch counts
    it as 1 there), so tensors without elements are a class of their own unless they fit the dense one."""
    if value.layout != torch.strided or value.is_nested:
        return str(value.layout)
    sizes, strides = tuple(value.shape), value.stride()
    expected = 1
    for size, stride in zip(reversed(sizes), reversed(strides)):
        if stride != expected:
            return pattern(sizes, strides) if value.numel() else "empty"
        expected *= size
    return "dense"


def pattern(sizes, strides):
    order = sorted(range(len(sizes)), key=lambda dim: (-strides[dim], dim))
    follows = tuple(strides[a] == strides[b] * sizes[b] for a, b in zip(order, order[1:]))
    return (tuple(order), follows, tuple(stride if stride < 2 else "n" for stride in strides))


def is_empty(cell):
    try:
        cell.cell_contents
    except ValueError:
        return True
    return False
