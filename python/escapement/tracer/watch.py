"""The tensors and modules that a Python function can reach, and whether they are still the same ones.

A recording holds parameters and buffers by identity: values written in place are seen (the core reads sizes, dtype and
memory anew at every call), a replaced object is not. So every call compares the identities of what the modules hold:
parameters, buffers, submodules, hooks. That sees every way of replacing, also those that no registration hook of torch's
reports (`_parameters[...] =`, ModuleList.insert, functional_call). swap_tensors, which keeps the Python object and changes
what is behind it, is refused by torch itself while a recording holds the tensor. What the program has asked a tensor about
itself, which the recording need not hold, is compared too (metadata.py).
"""

import builtins
import collections
import enum
import functools
import gc
import itertools
import operator
import random
import sys
import warnings

import torch

from ..core import core
from ..limits import CALL_DEPTH, COMPARED, ITEMS, OBJECT_DEPTH
from ..recording.arithmetic import NUMBERS
from .apart import values_apart
from .asked import classes_of, methods_named, names_asked, names_read
from .caught import with_handlers
from .host_undo import HostUndo
from .homes import of_program, source_of
from .identities import asks_identity
from .instructions import names_at
from .library_objects import calls_of, handed_out_ids, is_mock
from .metadata import Metadata
from .number_types import modules_naming_it
from .objects import is_a, length_of, values_in
from .outside import events_seen, note_randoms
from .plain import Plain, names_of_thread, own_space
from .ran import Everything, Searched
from .search import Search, cell_content, identity, slot_value, space_of

training = operator.attrgetter("training")
stores = operator.attrgetter("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks")
needs_gradient = operator.attrgetter("requires_grad")
STORES = frozenset(("STORE_ATTR",))
DEFAULTS = "__defaults__", "__kwdefaults__"
defaults_of = operator.attrgetter(*DEFAULTS)
hooks = operator.attrgetter("_forward_hooks", "_forward_pre_hooks")
said_of_hooks = operator.attrgetter("_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs")   # by their numbers
HOOKS_OF_ALL = operator.attrgetter(*(f"_global_forward_{name}" for name in ("hooks", "pre_hooks", "hooks_with_kwargs", "hooks_always_called")))(torch.nn.modules.module)



class Watch:
    """What a function reaches now. `same()` is asked at every call."""

    def __init__(self, fn, kinds=(), ran=Everything()):
        """`kinds`: classes of the program's own that its arguments have. `ran`: which functions count (ran.py)."""
        found = Search(ran)
        for function in (fn, *ran.beside):
            found.add(function, CALL_DEPTH)
        for kind in kinds:
            found.add(kind, CALL_DEPTH)
            if issubclass(kind, enum.Enum):
                for member in kind:
                    found.add(member, CALL_DEPTH)
        searched = set()
        while (methods := [method for method in methods_named(found) if method not in searched]) or found.add_long(names_asked(found)):
            searched.update(methods)
            for method in methods:
                found.add(method, CALL_DEPTH - 1)
        if found.marked:
            found.add_attributes(names_read(found.functions, classes_of(found), found.named, found.made, found.counts)[0])
        self.searched = Searched(ran, found.functions, bool(found.left_out))
        self.modules, self.variables, self._spaces, self._cells = found.modules, found.variables, found.spaces, found.cells
        self.kinds = frozenset((*found.kinds, *map(type, found.objects)))   # whose methods count already
        self._kinds = [kind for kind in found.kinds if own_space(kind) is not None]
        self._slotted, self.randoms = found.slotted, found.randoms
        note_randoms(found.randoms)
        self._held = found.containers   # that stand in none of the others
        self._functions = [function for function in found.functions if any(defaults_of(function))]
        self.generators = found.generators
        hooked = [module for module in self.modules if any(hooks(module))]
        self._stored = [*itertools.chain.from_iterable([*map(stores, self.modules), *map(said_of_hooks, hooked)]), *(HOOKS_OF_ALL if self.modules else ())]
        self._contents = core().Contents(self._stored, [])
        held = itertools.chain.from_iterable(map(dict.values, self._stored))
        self.tensors = [value for value in held if is_a(value, torch.Tensor)] + found.tensors
        self.asked = frozenset(map(id, self.tensors)) if any(asks_identity(function.__code__) for function in found.functions if of_program(source_of(function))) else ()
        self.handlers = frozenset(code for function in found.functions for code in with_handlers(function.__code__))
        self.type_spaces = modules_naming_it(found.functions)
        self.plain = Plain(found)
        leaves = {id(tensor): tensor for tensor in self.tensors if tensor.is_leaf and self.plain.reads_gradients}
        self._gradients = [functools.partial(getattr, tensor, "grad") for tensor in leaves.values()]
        self.variables += [(read, read()) for read in self._gradients]
        self._sets_gradients = any(sets_gradients(function.__code__) for function in found.functions)
        self.metadata = Metadata(fn, [*self.tensors, *(value for value in (read() for read in self._gradients) if value is not None)])
        self.elsewhere = found.reached() | self.plain.reached()
        self._objects = self.plain.objects()
        self._mocks = [*filter(is_mock, self._objects)]
        self._locals, self._caches = found.locals, found.caches
        self._owners = [(owner, space) for owner, space in owners_of(found) if type(space) is dict]
        self._attributes = self._named()
        self.empty = not self._owners and not self.variables and not self.plain.places

    @property
    def unknown(self):
        """What nobody compares, or None."""
        return self.plain.unknown or ("what more functions read than are searched" if self.searched.left_out else None)

    def flags(self):
        """By what the versions are told apart: each module's `training`."""
        return (*map(training, self.modules),)

    def key(self):
        """What is compared by identity must be kept while the key is."""
        kinds, held = (type(owner) for owner, _ in self._owners), (value for _, value in self.variables)
        bases = (id(base) for owner, _ in self._owners if is_a(owner, type) for base in bases_of(owner))
        return self.flags(), self.plain_key(), (*map(id, kinds),), (*bases,), (*map(identity, held),)

    def plain_key(self):
        """The same, of plain values and of what tensors say of themselves."""
        return self.plain.key(), self.metadata.key()

    def _values(self, apart=False):
        return (values_apart(self.plain.places) if apart else self.plain.values()) + self.metadata.values()

    def same(self):
        """Deleting a submodule changes the dict before torch makes a new one."""
        return self._contents.same() and all(read() is value for read, value in self.variables)

    def contents(self, apart=False):
        """same() and flags() as they are now, as one object that the core compares itself; None where it would need Python. `apart`: other containers, of equal
        contents, are not the same."""
        if self.variables or not all("training" in vars(module) for module in self.modules):
            return None
        flags = [(vars(module), "training", module.training) for module in self.modules]
        return core().Contents(self._stored, flags + self._values(apart), self._owners)

    def plain_contents(self):
        return core().Contents([], self._values(), self._owners)

    def reaches_the_same(self):
        """Whether the plain values can be found where they were: no object among them came, went or was replaced, none has more or fewer attributes."""
        return self._attributes == self._named() and same_state(self._objects, self.plain.objects())

    def _named(self):
        """Which attributes there are, and of which classes their owners are."""
        owners = [(type(owner), *((id(space), *bases_of(owner)) if is_a(owner, type) else (id(space_of(owner)),)), *space) for owner, space in self._owners]
        return owners + [*map(names_of_thread, self._locals), *map(handed_out_ids, self._caches), self.plain.attributes_of_tensors and self.plain.attributes_of_tensors()]

    def meets(self, containers):
        """Whether the function finds one of these, of which only the ids are given, elsewhere too: then two copies would not be one."""
        return not self.elsewhere.isdisjoint(containers)

    def may_be_asked(self, leaves):
        """Whether one of these is a tensor that the function finds elsewhere too, and asks which object it is."""
        return any(id(leaf) in self.asked for leaf in leaves)

    def needs_gradient(self):
        return any(map(needs_gradient, self.tensors))

    def state(self):
        """Everything the function could rebind or put somewhere: compared before and after a recording."""
        found = []
        for space, names in (*self._spaces, *((own_space(kind), None) for kind in self._kinds)):
            for name in [*space] if names is None else names:
                found.append(name)
                found.extend(with_content(space.get(name)))
        for owner, names in self._slotted:
            found.extend(item for name in names for item in with_content(slot_value(owner, name)))
        found += [type(owner) for owner, _ in self._owners]
        found.extend(read() for read in self._gradients)
        found += needing_gradients(self.tensors)
        found += [item for cell in self._cells for item in with_content(cell_content(cell))]
        found += [item for mock in self._mocks for item in with_content(calls_of(mock))]
        return found + [item for held in self._defaults() for item in with_content(held)]

    def ask_of_gradients(self, asking):
        """Where the function says which tensors require one: what it sets is there before it does."""
        for tensor in self.tensors if self._sets_gradients else ():
            asking.note(tensor, ("gradient",))

    def _defaults(self):
        return [value for function in self._functions for values in defaults_of(function) if values for value in values_in(values)]

    def undo(self):
        """What puts back all that state() tells of."""
        held = [*self._held, *self._defaults(), *map(vars, self._mocks)]
        return Together(HostUndo(self._spaces, self._kinds, self._slotted, self._cells, held), NeedsOfGradients(self.tensors), ClassesOf(self._owners))

    def replace(self, wanted, replacement):
        """Puts replacement(value) where state() finds a value that is wanted, also inside of lists, tuples, dicts and queues."""
        put = Replaced(wanted, replacement)
        for space, names in self._spaces:
            for name in [*space] if names is None else [name for name in names if name in space]:
                put.into(space, name, space[name], dict.__setitem__)
        for kind in self._kinds:
            for name, value in list(vars(kind).items()):
                put.into(kind, name, value, setattr)
        for owner, names in self._slotted:
            for name in names:
                put.into(owner, name, slot_value(owner, name), object.__setattr__)
        for cell in self._cells:
            put.into(cell, "cell_contents", cell_content(cell), setattr)
        for function in self._functions:
            for name in DEFAULTS:
                put.into(function, name, getattr(function, name), setattr)
        for container in self._held:
            put.of(container)


class Replaced:
    """One walk: no container is looked into twice."""

    def __init__(self, wanted, replacement):
        self._wanted, self._replacement, self._seen = wanted, replacement, {}

    def into(self, container, key, value, put):
        now = self.of(value)
        if now is not value:
            put(container, key, now)

    def of(self, value, depth=2 * OBJECT_DEPTH):
        if is_a(value, (torch.Tensor, *NUMBERS)):
            return self._replacement(value) if self._wanted(value) else value
        if depth == 0 or id(value) in self._seen or not is_a(value, (list, tuple, dict, collections.deque)) or length_of(value) > ITEMS:
            return value
        self._seen[id(value)] = value
        if type(value) is tuple:
            now = tuple(self.of(item, depth - 1) for item in value)
            return value if same_state(value, now) else now
        if is_a(value, dict):
            self._dict(value, depth)
        elif is_a(value, (list, collections.deque)):
            for at, item in enumerate([*(list if is_a(value, list) else collections.deque).__iter__(value)]):
                self._item(value, at, item, depth)
        return value

    def _item(self, container, at, item, depth):
        now = self.of(item, depth - 1)
        if now is not item:   # not by methods of the program's own
            (list if is_a(container, list) else collections.deque).__setitem__(container, at, now)

    def _dict(self, value, depth):
        base = collections.OrderedDict if is_a(value, collections.OrderedDict) else dict   # not methods of the program's own, or Counter's
        items = [(self.of(key, depth - 1), self.of(item, depth - 1)) for key, item in base.items(value)]
        if all(key is now for key, (now, _) in zip(base.keys(value), items)):
            for key, item in items:
                if base.__getitem__(value, key) is not item:
                    base.__setitem__(value, key, item)
        else:   # in the order in which they were put there
            base.clear(value)
            for key, item in items:
                base.__setitem__(value, key, item)


def owners_of(found):
    """What has attributes, and where: modules, objects, classes, functions and Python modules of the program's own."""
    owners = {id(owner): owner for owner in (*found.modules, *found.objects, *found.homes, *found.functions)}.values()
    return [*zip(owners, map(space_of, owners)), *((kind, own_space(kind)) for kind in classes_of(found))]


def bases_of(kind):
    """Whatever a metaclass says of them."""
    return type.__getattribute__(kind, "__mro__")


def sets_gradients(code):
    if "requires_grad_" in code.co_names or "requires_grad" in code.co_names and "requires_grad" in names_at(code, STORES):
        return True
    return any(sets_gradients(part) for part in code.co_consts if hasattr(part, "co_consts"))


def needing_gradients(tensors):
    """Whatever their classes say."""
    with torch._C.DisableTorchFunctionSubclass():
        return [*map(needs_gradient, tensors)]


class Together:
    def __init__(self, *parts):
        self._parts = parts

    def restore(self):
        for part in self._parts:
            part.restore()


class ClassesOf:
    """Of objects, which the function may have changed (`o.__class__ = Other`)."""

    def __init__(self, owners):
        self._before = [(owner, type(owner)) for owner, _ in owners]

    def restore(self):
        for owner, kind in self._before:
            if type(owner) is not kind:
                object.__setattr__(owner, "__class__", kind)


class NeedsOfGradients:
    """Which tensors required one, to be put back."""

    def __init__(self, tensors):
        self._tensors, self._before = tensors, needing_gradients(tensors)

    def restore(self):
        with torch._C.DisableTorchFunctionSubclass():
            for tensor, before in zip(self._tensors, self._before):
                if tensor.requires_grad is not before and tensor.is_leaf:
                    tensor.requires_grad = before


def with_content(value):
    """The object and, of a list or dict, what it holds."""
    content = [*values_in(value)] if is_a(value, (list, set, collections.deque, dict)) else []
    return [value, *content[:COMPARED]]


def drawn_by(generator):
    """How far a generator of Python's or NumPy's has come."""
    if is_a(generator, random.SystemRandom):   # nobody knows: no two such are equal
        return object()
    if is_a(generator, random.Random):
        return generator.getstate()
    return repr(generator.bit_generator.state) if hasattr(generator, "bit_generator") else repr(generator.get_state())


def host_state(randoms=()):
    """What a program may change of Python itself, wherever it does so: generators, how tensors are printed, and what process_state() has; and how often it has
    reached outside. (What it changes of torch is noticed by the core.)"""
    numpy = sys.modules.get("numpy.random")
    drawn = numpy.get_state() if numpy else ()
    drawn = [value.tobytes() if hasattr(value, "tobytes") else value for value in drawn]
    return random.getstate(), drawn, dict(vars(torch._tensor_str.PRINT_OPTS)), process_state(), events_seen(), [*map(drawn_by, randoms)], States(randoms)


def process_state():
    """Whether garbage is collected, where modules are looked for, which warnings are shown, names for all, what NumPy does where numbers overflow, where texts go."""
    names, streams = vars(builtins), (sys.stdin, sys.stdout, sys.stderr)
    return gc.isenabled(), [*sys.path], [*map(id, warnings.filters)], [*names], [*map(id, names.values())], errors_of_numpy(), [*map(id, streams)]


def errors_of_numpy():
    numpy = sys.modules.get("numpy")
    return numpy.geterr() if hasattr(numpy, "geterr") else {}


def collect_by_itself(enabled):
    gc.enable() if enabled else gc.disable()


class States:
    """Of generators of Python's and NumPy's, to be put back. Two of these are equal: drawn_by compares them."""

    def __init__(self, randoms):
        numpy = sys.modules.get("numpy.random")
        self._states = [(random.setstate, random.getstate()), *([(numpy.set_state, numpy.get_state())] if numpy else []), (collect_by_itself, gc.isenabled())]
        if errors := errors_of_numpy():
            self._states.append((lambda then: sys.modules["numpy"].seterr(**then), errors))
        for generator in randoms:
            if is_a(generator, random.Random) and not is_a(generator, random.SystemRandom):
                self._states.append((generator.setstate, generator.getstate()))
            elif hasattr(generator, "bit_generator"):
                self._states.append((functools.partial(setattr, generator.bit_generator, "state"), generator.bit_generator.state))
            elif hasattr(generator, "set_state"):
                self._states.append((generator.set_state, generator.get_state()))

    def put_back(self):
        for put, state in self._states:
            put(state)

    def __eq__(self, other):
        return is_a(other, States)

    __hash__ = None


def put_back_draws(host):
    """Of host_state()."""
    host[-1].put_back()


def same_state(before, after):
    return len(before) == len(after) and all(a is b for a, b in zip(before, after))
