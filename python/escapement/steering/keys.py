"""What makes another version of a function without counting as a recompile: its key.

A key is rank, dtype, device and layout class of every tensor the frame can see, also inside of objects, which module it belongs to, which dtypes
the parameters of modules have and which of them are trained, and torch's modes. Sizes and numbers are never part of it; neither is the length of
a list (that is structure, and counts). A key is made at every call that is refused, so what it costs is felt.
"""

import itertools
import types
import weakref

import torch

from ..limits import KEY_DEPTH, KEY_VALUES

NOT_LOOKED_INTO = (type, types.ModuleType, types.FunctionType, types.MethodType)
PLAIN = (str, int, float, bool, bytes, type(None))   # keys whose text is theirs
# torch's own words: a class of the program's may have others, which eager does not ask here, and which fail on what is half made.
DIM, STRIDE = torch._C.TensorBase.dim, torch._C.TensorBase.stride
DTYPE, DEVICE, LAYOUT, SHAPE, REQUIRES_GRAD, IS_NESTED = (
    getattr(torch._C.TensorBase, name).__get__ for name in ("dtype", "device", "layout", "shape", "requires_grad", "is_nested"))


numbers, numbered = itertools.count(1), {}   # id -> (weak reference, number)


def number_of(value):
    """Tells objects apart, also one from another that has died before: an address is used again, and with it a budget would be."""
    known = numbered.get(id(value))
    if known is not None and known[0]() is value:
        return known[1]
    try:
        known = numbered[id(value)] = weakref.ref(value, forget(id(value))), next(numbers)
    except TypeError:   # takes no weak reference
        return id(value)
    return known[1]


def forget(identity):
    def gone(reference):
        if numbered.get(identity, (None,))[0] is reference:
            del numbered[identity]
    return gone


def frame_key(code, variables, values, closure=()):
    """`values`: the frame's locals by name; `closure`: its cells; `variables`: the globals, of which the modules count that the code names."""
    seen = {**values, **{name: cell.cell_contents for name, cell in zip(code.co_freevars, closure) if not is_empty(cell)}}
    looked_at = set()
    with torch._C.DisableTorchFunction():   # nobody's mode or subclass is to see these looks
        parts = [part for name in sorted(seen) for part in value_key(name, seen[name], KEY_DEPTH, looked_at)]
    named = ((name, variables.get(name)) for name in code.co_names)
    return (*modes(), *parts, *(module_key(("global", name), value) for name, value in named if isinstance(value, torch.nn.Module)))


def modes():
    """Each of these is a guard of Dynamo's on the state of torch; the number of threads is one of them."""
    return (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"), torch.get_default_dtype(),
            torch.get_num_threads())


def value_key(name, value, depth, looked_at):
    """`looked_at`: the identities of the containers so far; none is entered twice."""
    if isinstance(value, torch.Tensor):
        return [(name, *tensor_key(value))]
    if isinstance(value, types.MethodType) and isinstance(value.__self__, torch.nn.Module):
        value = value.__self__
    if isinstance(value, torch.nn.Module):
        return [module_key(name, value)]
    inside = contents(value) if depth and id(value) not in looked_at and len(looked_at) < KEY_VALUES else ()
    if inside:
        looked_at.add(id(value))
    parts = (part for key, item in inside for part in value_key((name, key), item, depth - 1, looked_at))
    return list(dict.fromkeys(parts))


def tensor_key(tensor):
    try:
        return DIM(tensor), DTYPE(tensor), str(DEVICE(tensor)), REQUIRES_GRAD(tensor), layout_class(tensor)
    except Exception:   # a class may answer for all of them (`__torch_dispatch__`), and its `__new__` is a frame that Dynamo asks for
        return (type(tensor),)


def module_key(name, module):
    return name, number_of(module), parameters_key(module)


def parameters_key(module):
    """The dtype of each parameter and buffer, and whether it is trained, as one number: layers are unfrozen, models cast. A plain walk, since
    `parameters()` takes several times as long."""
    facts, todo, seen = [], [module], set()
    while todo:
        own = todo.pop().__dict__
        if id(own) in seen:
            continue
        seen.add(id(own))
        facts += [(tensor.dtype, tensor.requires_grad) for held in ("_parameters", "_buffers") for tensor in held_in(own, held)]
        todo += held_in(own, "_modules")
    return hash(tuple(facts))


def held_in(own, name):
    held = own.get(name)
    return [value for value in held.values() if value is not None] if isinstance(held, dict) else ()   # another type in a ScriptModule


def contents(value):
    """What may hold tensors, each with its name in the key. Where in a list they stand is no part of it. A class of the program's own is not asked: its
    words for all this may fail, and eager does not need them."""
    if isinstance(value, dict):
        return [(str(key) if type(key) in PLAIN else type(key), item) for key, item in dict.items(value)]
    if isinstance(value, (list, tuple)):
        return [("item", item) for item in (list if isinstance(value, list) else tuple).__iter__(value)]
    if isinstance(value, NOT_LOOKED_INTO):
        return ()
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return ()
    return list(own.items()) if type(own) is dict else ()


def layout_class(value):
    """How the strides follow from the sizes. Dynamo infers each stride as the product of another dim's size and stride and guards
    on that, so the tensors which can share a version are those of one pattern. A size of 0 inside breaks every pattern (torch counts
    it as 1 there), so tensors without elements are a class of their own unless they fit the dense one."""
    if LAYOUT(value) != torch.strided or IS_NESTED(value):
        return str(LAYOUT(value))
    sizes, strides = tuple(SHAPE(value)), STRIDE(value)
    if not all(type(number) is int for number in (*sizes, *strides)):
        return "symbolic"   # to compare them would be a guard of somebody's
    expected = 1
    for size, stride in zip(reversed(sizes), reversed(strides)):
        if stride != expected:
            return pattern(sizes, strides) if 0 not in sizes else "empty"
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
