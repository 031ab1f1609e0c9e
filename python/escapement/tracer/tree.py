"""Arguments and results of a Python function as flat leaves and a structure.

A structure is a nested tuple that is both the key of a recording and the recipe that builds the objects again. Leaves are
what a recording can follow: tensors and integers (floats on request); everything else is part of the structure, by type and
by value, with 0.0 told from -0.0 and 1 from True. What has no place in either raises Unsupported: nothing is guessed.

Containers are copied, so that the function may change what it was given; `Copies` remembers which copy stands for which of
the caller's objects. Results, and what the function changed, are results.py's.
"""

import collections
import copy
import enum
import math
import operator
import types

import torch
from torch.utils import _pytree

from ..limits import ARGUMENT_DEPTH, ARGUMENT_PARTS
from ..recording.arithmetic import plain
from .objects import attributes_of, has_only_attributes, is_a, new_object

KEY = torch._C._dispatch_key_parse("DeferredInit")   # of what the core records
TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
PARAMETER = "_is_param"   # the attribute by which torch takes any tensor for a parameter
BY_VALUE = frozenset((type(None), str, bytes, bool, complex, type(...), torch.dtype, torch.device, torch.layout, torch.memory_format))
DICTS = (dict, collections.OrderedDict)
FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
INT64 = range(-2**63, 2**63)
NUMBERS_AND_TEXTS = (int, float, complex, str, bytes, type(None))
_USUAL, MOST_USUAL = {}, 1024
_KEEPING = {}


class Unsupported(Exception):
    """An object that is neither a leaf, nor a constant, nor a container whose parts are known."""

    def __init__(self, value):
        super().__init__(f"{type(value).__module__}.{type(value).__qualname__}")


class Constant:
    """A value with an equality that can be trusted: same type, same bits; objects by identity."""

    __slots__ = ("value", "_key")

    def __init__(self, value, key):
        self.value, self._key = value, (type(value), key)

    def __eq__(self, other):
        return is_a(other, Constant) and self._key == other._key

    def __hash__(self):
        return hash(self._key)

    def __repr__(self):
        return repr(self.value)


def float_key(value):
    """Bit by bit, but for the payload of a NaN."""
    return value.hex()


def constant(value):
    kind = type(value)
    if kind in BY_VALUE:
        return by_value(kind, value)[1]
    if kind is float:
        return Constant(value, float_key(value))
    if kind is int:
        return Constant(value, value)
    if is_a(value, enum.Enum):
        return Constant(value, id(value))
    if is_a(value, (torch.Generator, type)) or stateless(value):
        return Constant(value, id(value))   # the structure holds the object, so its address is not used again
    if kind is slice or kind is range:   # ranges are equal where their items are
        return Constant(value, tuple(constant(part) for part in (value.start, value.stop, value.step)))
    raise Unsupported(value)


def by_value(kind, value):
    """The structure of one of BY_VALUE: the same object again where it is a usual one, since structures are compared at every call."""
    found = _USUAL.get((kind, value))
    if found is None or kind is complex:
        found = "constant", Constant(value, (float_key(value.real), float_key(value.imag)) if kind is complex else value)
        if len(_USUAL) < MOST_USUAL and (kind not in (str, bytes) or len(value) < 64):
            _USUAL[kind, value] = found
    return found


def stateless(value):
    """torch's own functions. Any other function, and every module, may reach tensors that nobody would watch."""
    return is_a(value, FUNCTIONS) and (getattr(value, "__module__", None) or "").partition(".")[0] in ("torch", "math", "builtins")


def generators_in(structure):
    """The random generators among the constants of a structure."""
    if is_a(structure, Constant):
        return [structure.value] if is_a(structure.value, torch.Generator) else []
    return [found for part in structure for found in generators_in(part)] if is_a(structure, tuple) else []


def key_of(key):
    """Of a dict. Keys that are equal need not be the same: 1 and True, 0.0 and -0.0, inside of a tuple too."""
    if type(key) in (tuple, frozenset):
        items = [key_of(item) for item in key]
        return Constant(type(key)(item.value for item in items), type(key)(items))
    return constant(plain(key))   # a size as a key is a size that was read


# --- containers: parts of an object, and what else it takes to build it again

def parts(value):
    """(how, extra, children) of a container, or None."""
    kind = type(value)
    if kind is tuple or kind is list or kind is torch.Size:
        return kind, None, list(value)
    if kind in DICTS:
        return kind, tuple(map(key_of, value)), list(value.values())
    if is_a(value, tuple) and hasattr(kind, "_fields"):
        return None if getattr(value, "__dict__", None) else (kind, "named", list(value))
    if kind in _pytree.SUPPORTED_NODES:
        children, context = _pytree.SUPPORTED_NODES[kind].flatten_fn(value)
        if not all(is_a(child, (torch.Tensor, tuple, *NUMBERS_AND_TEXTS)) for child in children) and not keeps_parts(kind, value, children, context):
            raise Unsupported(value)
        if not keeps_attributes(kind, value, children, context):
            raise Unsupported(value)
        return kind, ("registered", hashable(context)), list(children)
    if has_only_attributes(value):
        names, values, slots = attributes_of(value)
        return kind, ("fields", names, slots), values
    return None


def keeps_parts(kind, value, children, context):
    """Whether what a registered type makes holds the very containers that it is given, where it hands out its own. If it copies a list, what the program then
    appends is in no list of ours. (A cache of transformers hands out lists that it makes for that: those nobody changes.)"""
    node = _pytree.SUPPORTED_NODES[kind]
    if (kind, node) not in _KEEPING:
        hands_out_its_own = all(map(operator.is_, node.flatten_fn(value)[0], children))
        made = node.unflatten_fn(list(children), copy.copy(context)) if hands_out_its_own else None
        _KEEPING[kind, node] = not hands_out_its_own or all(map(operator.is_, node.flatten_fn(made)[0], children))
    return _KEEPING[kind, node]


def keeps_attributes(kind, value, children, context):
    """Whether what a registered type makes has all attributes of an object, also those that somebody has put on it."""
    names = tuple(getattr(value, "__dict__", ()))
    key = kind, _pytree.SUPPORTED_NODES[kind], names
    if key not in _KEEPING:
        _KEEPING[key] = not names or set(names) == set(vars(_pytree.SUPPORTED_NODES[kind].unflatten_fn(list(children), copy.copy(context))))
    return _KEEPING[key]


def hashable(context):
    """A registered type's context is often a list of names; by type and by value, as everywhere."""
    if is_a(context, (list, tuple)):
        return Context(context, (type(context), tuple(hashable(item) for item in context)))
    if is_a(context, dict):
        return Context(context, tuple((key, hashable(item)) for key, item in context.items()))
    if is_a(context, type):
        return Context(context, context)
    return Context(context, constant(context))


class Context(Constant):
    """What a registered type wants back, compared by `key`."""

    __slots__ = ()


def build(kind, extra, children):
    if kind in (tuple, list, torch.Size):
        return kind(children)
    if kind in DICTS:
        return kind(zip((key.value for key in extra), children))
    if extra == "named":
        return kind._make(children)
    if extra[0] == "registered":
        return _pytree.SUPPORTED_NODES[kind].unflatten_fn(children, copy.copy(extra[1].value))
    return new_object(kind, extra[1], children, extra[2])


class Copies:
    """The containers of one flattening, numbered in order; and later, which copy stands for which. Also the tensors met: one
    that stands twice is one leaf, so that the program may ask whether `x is y`."""

    def __init__(self):
        self.originals, self._number, self.tensors, self.met = [], {}, {}, set()
        self.depth = 0

    def add(self, original):
        if mutable(original):
            if id(original) in self.met or len(self.met) == ARGUMENT_PARTS:
                raise Unsupported(original)   # twice the same container: two copies would not be one
            self.met.add(id(original))
        if self.depth == ARGUMENT_DEPTH:
            raise Unsupported(original)
        self.originals.append(original)

    def bind(self, copies):
        self._number = {id(made): number for number, made in enumerate(copies) if mutable(made)}

    def number(self, value):
        return self._number.get(id(value)) if mutable(value) else None


def mutable(value):
    return not is_a(value, tuple)


# --- flattening

def flatten(value, leaves, copies, dynamic_floats, exact=False):
    """Appends the leaves of an argument; returns its structure. `exact`: integers too are constants."""
    kind = type(value)
    if kind in TENSORS:
        place = copies.tensors.setdefault(id(value), len(leaves))
        if place < len(leaves):
            return "same", place
        leaves.append(value)
        return "tensor", kind
    if kind in BY_VALUE:
        return by_value(kind, value)
    if kind is int and not exact and value in INT64:
        leaves.append(value)
        return ("int",)
    if kind is float and dynamic_floats and not math.isnan(value):
        leaves.append(value)
        return ("float",)
    if kind is collections.OrderedDict and value.__dict__:   # `state_dict()._metadata`
        raise Unsupported(value)
    found = parts(value)
    if found is None:
        return "constant", constant(value)
    how, extra, children = found
    if not children and extra and extra[0] == "fields":
        raise Unsupported(value)   # an object without attributes, a sentinel say: its identity is all there is
    copies.add(value)
    copies.depth += 1
    inner = tuple(flatten(child, leaves, copies, dynamic_floats, exact) for child in children)
    copies.depth -= 1
    return how, extra, inner


class Reader:
    """The leaves, one after the other; or again."""

    def __init__(self, leaves):
        self.leaves, self._next = leaves, iter(leaves)

    def __next__(self):
        return next(self._next)


def unflatten(structure, leaves, made):
    """The object again. `leaves`: a Reader; `made`: gets every container, in flatten's order."""
    how = structure[0]
    if how == "tensor":
        return as_kind(next(leaves), structure[1])
    if how in ("int", "float"):
        return next(leaves)
    if how == "same":
        return leaves.leaves[structure[1]]
    if how == "constant":
        return structure[1].value
    place = len(made)
    made.append(None)
    made[place] = build(how, structure[1], [unflatten(child, leaves, made) for child in structure[2]])
    return made[place]


def as_kind(leaf, kind):
    """What stands for a parameter while one is recorded is one to whoever asks with isinstance."""
    if kind is torch.nn.Parameter and not isinstance(leaf, kind):
        setattr(leaf, PARAMETER, True)
    return leaf


def leaf_names(structure, name):
    """What each leaf is to the user: x, x[0], x['mask'], x.field."""
    how = structure[0]
    if how in ("tensor", "int", "float"):
        return [name]
    if how in ("constant", "same"):
        return []
    steps = child_steps(how, structure[1], len(structure[2]))
    return [found for step, child in zip(steps, structure[2]) for found in leaf_names(child, name + step)]


def child_steps(how, extra, count):
    if how in DICTS:
        return [f"[{key!r}]" for key in extra]
    if extra == "named":
        return [f".{field}" for field in how._fields]
    if is_a(extra, tuple) and extra[0] == "fields":
        return [f".{field}" for field in extra[1]]
    keys = extra[1].value if is_a(extra, tuple) else None
    if is_a(keys, (list, tuple)) and len(keys) == count and all(is_a(key, str) for key in keys):
        return [f".{key}" for key in keys]
    return [f"[{i}]" for i in range(count)]
