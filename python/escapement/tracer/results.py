"""What a function returned, and what it changed in containers that it was given, as flat leaves and a structure (tree.py).

Leaves are of more kinds here than among arguments. A result that stands for one of the caller's containers is handed back as that
container; one that the function made and that stands twice, in the result or in a container of the caller's, is built once.
"""

import collections
import types
import weakref

import torch

from ..recording.arithmetic import NUMBERS, ours, value_of
from .objects import become, held_elsewhere, is_a
from .tree import DICTS, INT64, KEY, PARAMETER, TENSORS, Unsupported, build, child_steps, constant, mutable, parts


class Results:
    """One flattening. `copies`: which of the containers are the caller's."""

    def __init__(self, copies=None):
        self.leaves, self._copies = [], copies
        self._met = {}      # id -> number of a container that the function made; None while we are inside of it
        self._kept = []     # these containers: their ids are not used again
        self._others = []   # tuples, and the caller's containers

    def flatten(self, value):
        kind = type(value)
        if is_a(value, torch.Tensor):
            return self._tensor(value, kind)
        if kind is bool or is_a(value, (torch.SymInt, torch.SymBool)) or kind is int and value in INT64:
            self.leaves.append(value)
            return ("leaf",)
        if kind is float or is_a(value, torch.SymFloat):   # a tensor until the caller gets it: a region returns no floats
            self.leaves.append(torch.scalar_tensor(value, dtype=torch.float64))
            return ("item",)
        number = self._copies.number(value) if self._copies else None
        if number is not None:
            return "argument", number
        found = parts(value)
        if found is None:
            return "constant", constant(value)
        if mutable(value):
            return self._container(value, found)
        self._others.append(value)
        return self._parts(found)

    def content(self, value):
        """A container as a structure even where it is one of the caller's own."""
        self._others.append(value)
        return self._parts(parts(value))

    def held_elsewhere(self, box):
        """Whether anything but `box`, a list of the result, refers to a container that would be built anew for every call: the function did not make it, or
        has put it somewhere, so the caller must get that very object."""
        return held_elsewhere([box, *self._kept, *self._others], self._kept)

    def given_held(self, box, made, known):
        """The same of the copies that stand for the caller's containers, which `known` hold, too."""
        return any(map(weakref.getweakrefcount, made)) or held_elsewhere([box, self._others, *known, *made, *self._kept, *self._others], made)

    def _tensor(self, value, kind):
        if kind not in TENSORS or kind is not torch.Tensor and torch._C._dispatch_keys(value).has(KEY):
            raise Unsupported(value)   # a parameter that the function has made would come back as a plain tensor
        self.leaves.append(value)
        return ("leaf",)

    def _container(self, value, found):
        if attributes_of_dict(value):
            raise Unsupported(value)
        if id(value) in self._met:
            number = self._met[id(value)]
            if number is None:
                raise Unsupported(value)   # it holds itself
            return "again", number
        number, self._met[id(value)] = len(self._kept), None
        self._kept.append(value)
        structure = self._parts(found)
        self._met[id(value)] = number
        return structure

    def _parts(self, found):
        how, extra, children = found
        return how, extra, tuple(map(self.flatten, children))


class Builder:
    """Results again, in the order in which they were flattened. `leaves`: an iterator; `originals`: the caller's containers."""

    def __init__(self, leaves, originals):
        self._leaves, self._originals, self._made = leaves, originals, []

    def build(self, structure):
        how = structure[0]
        if how == "leaf":
            return next(self._leaves)
        if how == "item":
            return next(self._leaves).item()
        if how == "argument":
            return self._originals[structure[1]]
        if how == "constant":
            return structure[1].value
        if how == "again":
            return self._made[structure[1]]
        if issubclass(how, tuple):
            return self.content(structure)
        place = len(self._made)
        self._made.append(None)
        self._made[place] = self.content(structure)
        return self._made[place]

    def content(self, structure):
        return build(structure[0], structure[1], [self.build(child) for child in structure[2]])


def result_names(structure, name="result"):
    how = structure[0]
    if how in ("leaf", "item"):
        return [name]
    if how in ("constant", "argument", "again"):
        return []
    steps = child_steps(how, structure[1], len(structure[2]))
    return [found for step, child in zip(steps, structure[2]) for found in result_names(child, name + step)]


# --- containers that the function was given and changed

def snapshot(containers):
    return [parts(value) for value in containers]


def held_by(before):
    """What refers to the containers in a snapshot."""
    return [*before, *(children for *_, children in before)]


def changed(containers, before):
    """The numbers of the containers that no longer hold the very same objects."""
    return [number for number, (value, was) in enumerate(zip(containers, before)) if mutable(value) and not same_parts(parts(value), was)]


def same_parts(now, before):
    return now is not None and now[:2] == before[:2] and same_children(now, before[2])


def same_children(found, children):
    return len(found[2]) == len(children) and all(a is b for a, b in zip(found[2], children))


def store(original, made):
    """The caller's container gets what the function has put into its copy."""
    if is_a(original, list):
        original[:] = made
    elif is_a(original, collections.deque):
        original.clear()
        original.extend(made)
    elif is_a(original, dict):
        store_items(original, made, collections.OrderedDict if is_a(original, collections.OrderedDict) else dict)
    if is_a(original, collections.defaultdict):
        original.default_factory = made.default_factory
    if type(original) not in DICTS:
        become(original, made)


def store_items(original, made, base):
    """Not by methods of the type's own: they may do more, and have done so once."""
    items = list(base.items(made))
    base.clear(original)
    for key, value in items:
        base.__setitem__(original, key, value)


# --- a run that did not get as far as results that are known

def is_recorded(value):
    if is_a(value, torch.Tensor):
        return torch._C._dispatch_keys(value).has(KEY)
    return is_a(value, NUMBERS) and ours(value.node)


def attributes(value):
    """Of Python, that somebody put on a tensor."""
    return value.__dict__ if is_a(value, torch.Tensor) else {}


def attributes_of_dict(value):
    """An OrderedDict's, which no structure has."""
    return vars(value) if type(value) is collections.OrderedDict else {}


def is_marked(value):
    """With more than hints for Dynamo (`mark_static_address` of caches), which nobody else reads, and what makes it a parameter."""
    return any(not name.startswith("_dynamo_") and name != PARAMETER for name in attributes(value))


def real(value):
    if not is_a(value, torch.Tensor):
        return value_of(value.node)
    found = torch.ops.aten.alias(value)
    return found if type(value) is torch.Tensor else torch.Tensor._make_subclass(type(value), found, value.requires_grad)   # a parameter


def copies_of(made, originals):
    """(copy, the caller's container), also of weak references: to the copy, to the container."""
    pairs = [(copy, original) for copy, original in zip(made, originals) if mutable(copy)]
    return pairs + [(weak, weak_like(weak, original)) for copy, original in pairs for weak in weakref.getweakrefs(copy)]


def weak_like(weak, value):
    """Of a kind whose making is its own, the same."""
    kind = type(weak)
    if kind in weakref.ProxyTypes:
        return weakref.proxy(value)
    if kind is weakref.WeakMethod:
        return kind(types.MethodType(weak._func_ref(), value))
    if kind is weakref.KeyedRef:
        return kind(value, weak.__callback__, weak.key)
    return kind(value, weak.__callback__) if kind is weakref.ref else weak


class Ended:
    """What the function was given, when it raised or returned what has no structure: what it did to its copies is done to the caller's
    objects, and what stands for these is replaced by them wherever it is found."""

    def __init__(self, made, before, leaves, arguments):
        """`arguments`: the positional ones, and those by name."""
        self._made, self._before, self._leaves, self._arguments = made, before, leaves, arguments

    def hand_over(self, originals, leaves, result=None):
        """The result, in the caller's terms. `leaves`: what the caller gave in place of those that the function was given."""
        self._stands_for = {id(made): original for made, original in zip(self._made, originals) if mutable(made)}
        self._stands_for.update((id(ours), given) for ours, given in zip(self._leaves, leaves) if is_a(ours, torch.Tensor))
        self._kept = []
        for number in changed(self._made, self._before):
            found = parts(self._made[number])
            if found is not None:
                store(originals[number], build(*found[:2], list(map(self._settled, found[2]))))
        for made, original in zip(self._made, originals):
            for name, value in attributes_of_dict(made).items():
                setattr(original, name, self._settled(value))
        for ours, given in zip(self._leaves, leaves):
            self._take_attributes(ours, given)
        return self._settled(result)

    def put_away(self, originals, frames):
        """(copy, the caller's container), where more than these frames, of the run, refers to any of the copies; after hand_over()."""
        known = [self._made, *self._made, *held_by(self._before), self._arguments, *self._arguments, *frames]
        inner = [made for made in self._made if mutable(made)]
        if any(map(weakref.getweakrefcount, inner)) or held_elsewhere(known, inner):
            return copies_of(self._made, originals)
        return []

    def own(self):
        """The lists and dicts here, which hold what stood for something."""
        return [self._made, *self._made, *held_by(self._before), self._before, self._arguments, *self._arguments, self._leaves, self._kept, vars(self)]

    def given(self, leaves):
        """(what stood for a tensor, the caller's tensor)"""
        return [(ours, leaf) for ours, leaf in zip(self._leaves, leaves) if is_a(ours, torch.Tensor)]

    def real(self, tensor):
        """What a recorded tensor stands for; after hand_over()."""
        return self._stands_for.get(id(tensor)) if id(tensor) in self._stands_for else real(tensor)

    def _take_attributes(self, ours, given):
        for name, value in [item for item in attributes(ours).items() if item[0] != PARAMETER]:
            setattr(given, name, self._settled(value))

    def _settled(self, value):
        if id(value) in self._stands_for:
            return self._stands_for[id(value)]
        if is_recorded(value):
            now = self._remember(value, real(value))
            self._take_attributes(value, now)
            return now
        try:
            found = parts(value)
        except Unsupported:
            return value
        if found is None:
            return value
        self._remember(value, value)   # while we are inside
        children = list(map(self._settled, found[2]))
        if all(a is b for a, b in zip(children, found[2])):
            return value
        built = build(*found[:2], children)
        if mutable(value):   # others may hold it
            store(value, built)
            built = value if same_children(parts(value), children) else built
        return self._remember(value, built)

    def _remember(self, value, now):
        self._kept.append(value)
        self._stands_for[id(value)] = now
        return now
