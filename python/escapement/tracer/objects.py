"""Objects that are what their attributes are, and who refers to them.

A call is compiled for what such an object holds: it is copied for the function, and built again where it is a result. That is right as long
as nobody can tell the copy from the object: nothing of it lies outside of its attributes, nothing is done when it goes, nobody knows it by
its identity.
"""

import collections
import copyreg
import gc
import sys
import types
import weakref

import torch

_KNOWN = weakref.WeakKeyDictionary()
POINTER = object.__basicsize__ // 2
NOT_COPIED = (torch.nn.Module, torch.utils.data.Dataset, torch.optim.Optimizer)   # large, or known by their identity


def is_a(value, kinds):
    """isinstance(), by the object's type alone: what it says of its class itself is code of the program's, and may fail (a web framework's request outside of
    one)."""
    return issubclass(type(value), kinds)


CONTAINERS = (list, tuple, collections.OrderedDict, dict, collections.deque, set, frozenset)   # an ordered dict has an order of its own


def own_kind(container):
    return next(kind for kind in CONTAINERS if is_a(container, kind))


def values_in(container):
    """As the core walks them, whatever a class of the program's own would say."""
    kind = own_kind(container)
    return kind.values(container) if is_a(container, dict) else kind.__iter__(container)


def length_of(container):
    """Likewise."""
    return own_kind(container).__len__(container)


def space_of_class(kind):
    """The dict behind `vars` of a class, which is what the core compares (ctypes has its own kind of dict)."""
    return next(space for space in gc.get_referents(vars(kind)) if isinstance(space, dict))


def has_only_attributes(value):
    """Whether its attributes are all that there is of the object, and nobody holds it weakly, that is: by its identity."""
    kind = type(value)
    if kind not in _KNOWN:
        _KNOWN[kind] = kind is types.SimpleNamespace or consists_of_attributes(kind)
    return _KNOWN[kind] and not weakref.getweakrefcount(value)


def consists_of_attributes(kind):
    if kind.__new__ is not object.__new__ or issubclass(kind, NOT_COPIED) or kind.__itemsize__:
        return False
    if kind.__getattribute__ is not object.__getattribute__ or hasattr(kind, "__del__"):
        return False
    fields = sum(isinstance(member, types.MemberDescriptorType) for base in kind.__mro__ for member in vars(base).values())
    pointers = fields + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return kind.__basicsize__ == object.__basicsize__ + POINTER * pointers   # no memory of a base written in C


def attributes_of(value):
    """(names, values, how many of them stand in slots), without asking what the class may have put in front of them. First those in slots, not all of which
    need be filled, then those of the __dict__, each in order."""
    names = getattr(type(value), "__slotnames__", None)   # copyreg's own notes
    slots = [(name, found) for name in names or copyreg._slotnames(type(value)) for found in slot(value, name)] if names != [] else []
    space = getattr(value, "__dict__", {})
    if not slots:
        return tuple(space), list(space.values()), 0
    return (*(name for name, _ in slots), *space), [*(found for _, found in slots), *space.values()], len(slots)


def slot(value, name):
    try:
        return [object.__getattribute__(value, name)]
    except AttributeError:
        return []


def new_object(kind, names, values, slots):
    """Not by __init__: it may compute, and __post_init__ may refuse."""
    made = kind.__new__(kind)
    fill(made, names, values, slots)
    return made


def fill(target, names, values, slots):
    for name, value in zip(names[:slots], values):
        object.__setattr__(target, name, value)
    if slots < len(names):
        vars(target).update(zip(names[slots:], values[slots:]))


def become(target, source):
    """The object gets what the other one holds, and its class; what both have stays where it is."""
    if type(target) is not type(source):
        object.__setattr__(target, "__class__", type(source))
    had, _, slots = attributes_of(target)
    names, values, count = attributes_of(source)
    if had != names:
        for name in had[:slots]:
            object.__delattr__(target, name)
        for name in set(had[slots:]).difference(names):
            del vars(target)[name]
    fill(target, names, values, count)


# --- who refers to them

def references(value):
    """The ids of what it refers to, as often as it does."""
    space = getattr(value, "__dict__", None)   # asked for, so that it is a dict and its values are not in the object itself
    parts = gc.get_referents(value)
    if any(part is space for part in parts):
        parts = [*parts, *gc.get_referents(space)]
    return map(id, parts)


def counts(values):
    """References to each of them, beside those of the list."""
    return [sys.getrefcount(value) - LOOP for value in values]


LOOP = 0
LOOP = counts([[]])[0] - 1


def held_elsewhere(containers, inner):
    """Whether anything but `containers`, and these two lists, refers to one of `inner`, which are some of them."""
    if not inner:
        return False
    lists = (containers, inner)
    inside = collections.Counter()
    for value in {id(value): value for value in (*containers, *lists)}.values():
        inside.update(references(value))
    return any(count > inside[id(value)] for value, count in zip(inner, counts(inner)))
