"""Which tensors and modules a Python function can reach, and through which variables.

Reached: the function itself, bound objects, partial arguments, defaults, closures, globals named in the code, functions,
classes and plain objects found there, what their classes hold, methods of these that somebody names (watch.py), what is named of
Python modules of the program's own and of installed packages (homes.py), and lists and dicts of such; long ones in attributes once
some code names them. Libraries are not looked into. What nobody can follow or compare is said by `unknown`: then nothing is recorded.

A variable counts if a tensor or module is found behind it: its replacement then replaces what the function computes with.
"""

import collections
import contextlib
import contextvars
import dataclasses
import enum
import functools
import inspect
import itertools
import logging
import operator
import pickle
import random
import sys
import threading
import types
import weakref

import torch

from ..core import core
from ..limits import CALL_DEPTH, ITEMS, LONG, OWN_FUNCTIONS, PACKAGE_FUNCTIONS, PLACES, VISITED
from .homes import file_in, file_of, is_own, is_own_function, is_own_home, of_library, of_package, of_program, own_home, source_of
from .library_names import LibraryNames
from .library_objects import behind, handed_out, is_holder
from .names import fields_of, globals_in, globals_computed, imports_in, names_in, owners_asked, reaches_modules_by_name, reads_all
from .number_types import is_builtin_type
from .objects import CONTAINERS, is_a, length_of, own_kind, values_in
from .ran import Everything, Followed
from .tree import Unsupported

FUNCTIONS = (types.FunctionType, types.MethodType)
PLAIN = frozenset((str, bytes, int, float, complex, bool))
NOT_SEARCHED = (str, bytes, int, float, complex, torch.dtype, torch.device)
OWN = frozenset(vars(torch.nn.Module()))             # attributes of every module
OF_C = types.BuiltinMethodType, types.MethodWrapperType
ASKING = frozenset((getattr, hasattr, setattr, delattr, vars, dir, eval, exec, globals))   # builtins, which are met as values only where they have other names
WEAK = weakref.WeakKeyDictionary, weakref.WeakValueDictionary
CACHED = functools._lru_cache_wrapper
GETTERS = operator.attrgetter, operator.itemgetter, operator.methodcaller
BY_NAMES = frozenset(("attrgetter", "methodcaller"))   # whose calls names.py looks at
READING = operator.attrgetter, operator.methodcaller, dataclasses.asdict, dataclasses.astuple, inspect.getmembers, inspect.getattr_static, pickle.Pickler
PICKLES = frozenset(("pickle", "_pickle", "cloudpickle.cloudpickle", "dill._dill"))


class Search:
    """Depth first; an object again only where it is met with more depth left."""

    def __init__(self, ran=Everything()):
        self.ran = ran        # which functions are followed
        self.modules, self.tensors, self.generators = [], [], []
        self.variables = []   # (read, value): behind the value stands a tensor or a module
        self.spaces = []      # (dict, names or None for all): where the function may rebind something
        self.packaged = set() # the ids of such dicts that are a package's, not the program's (homes.py)
        self.read_by_packages = set()   # the ids of objects, and of dicts of their attributes, that packages have, too
        self.made, self.computes = set(), False   # classes that are named, whose objects may be made; `getattr` under another name
        self._in_package, self._kinds_met = False, set()
        self._followed, self.left_out = collections.Counter(), set()   # whether of packages -> how many functions; of which there were too many
        self._long, self._visited = [], 0   # (dict of attributes, name, depth): long containers there, which are searched once somebody names them
        self.stands_for = {}   # id of a list that only the search has -> id of what it was made for
        self.cells = []
        self.functions, self.objects, self.containers = [], [], []   # the program's own; lists and dicts that partial functions and optimisers hold
        self.kinds, self.slotted, self.randoms = [], [], []          # classes; (object, names of its slots); generators of Python's and NumPy's
        self.contexts, self.locals, self.homes = [], [], []          # context variables; thread locals; Python modules of the program's own
        self.loggers, self.marked, self.caches = [], [], []                           # marked: (tensor with attributes, depth)
        self.libraries = LibraryNames()
        self.named, self.optimizers = set(), False                   # names that callables hold (operator.attrgetter)
        self._unknown = None                                         # something that nobody can compare is read: what
        self._cut = []                                               # what lies deeper than anybody looks, from where it was met
        self._found = 0       # tensors and modules met so far
        self._seen = {}       # id -> (depth, whether anything was found, object): kept, so that no address is met twice
        self._parts, self._own_modules = set(), set()

    def add(self, value, depth):
        if depth == 0:
            self._cut.append(value)
            return
        if value is None or type(value) in PLAIN or is_a(value, NOT_SEARCHED) and not has_own_attributes(value):
            return
        if self._in_package:
            self.read_by_packages.update((id(value), id(space_of(value))))
        known, fruitful, _ = self._seen.get(id(value), (0, False, None))
        if known >= depth:
            self._found += fruitful
            return
        self._visited += 1
        if self._visited > VISITED:
            self._unknown = f"any of more than {VISITED} objects"
            return
        before = self._found
        self._seen[id(value)] = depth, False, value   # a cycle ends here
        self._visit(value, depth)
        self._seen[id(value)] = depth, self._found > before, value

    @property
    def counts(self):
        """Which functions count, of those that are met without being followed."""
        return Followed(self.functions, self.left_out) if self.left_out else self.ran

    @property
    def unknown(self):
        """What nobody compares, or None: also what was met nowhere but where it lies too deep."""
        cut = next((value for value in self._cut if id(value) not in self._seen and may_change(value)), None)
        return self._unknown or (None if cut is None else f"{name_of(type(cut))} that lies more than {CALL_DEPTH} objects deep")

    def reached(self):
        """The ids of lists, dicts, sets and objects. They are not kept: what is no longer there must be asked for anew."""
        return frozenset(key for key, (*_, value) in self._seen.items() if not is_a(value, (tuple, torch.Tensor, torch.nn.Module, *FUNCTIONS)))

    def _visit(self, value, depth):
        stands_for = behind(value)
        if stands_for is not None:
            self.containers.extend([stands_for] if is_a(stands_for, dict) else ())
            return self.add(stands_for, depth)
        self._by_kind(value, depth)
        if is_a(value, (*CONTAINERS, functools.partial)) and has_own_attributes(value):
            self._object(value, depth)

    def _by_kind(self, value, depth):
        if "__wrapped__" in (space_of(value) or ()):   # decorated, by whatever library: jitted functions are such
            self.add(vars(value)["__wrapped__"], depth)
        if is_a(value, torch.Tensor):
            self.tensors.append(value)
            self._found += 1
            self._of_tensor(value, depth)
        elif is_a(value, torch.Generator):
            self.generators.append(value)
            self._found += 1
        elif is_a(value, torch.nn.Module):
            self._module(value, depth)
        elif is_a(value, FUNCTIONS):
            self._function(value, depth)
        elif is_a(value, type):
            self._class(value, depth)
        elif is_random(value):
            self.randoms.append(value)
        elif is_a(value, contextvars.ContextVar):
            self.contexts.append(value)
            self._variable(functools.partial(value.get, None), value.get(None), depth)
        elif is_a(value, threading.local):
            self.locals.append(value)
            for name in [*vars(value)]:
                self._variable(functools.partial(getattr, value, name, None), vars(value)[name], depth)
        elif is_a(value, torch.optim.Optimizer):
            self.optimizers = True
            self.containers.extend((value.param_groups, value.state))
            self._all((value.param_groups, value.state), depth)
        elif is_a(value, (functools.partial, functools.partialmethod)):
            self.containers.extend((value.keywords, self._held(value, value.args)))
            self._all((value.func, *value.args, *value.keywords.values()), depth)
        elif is_a(value, functools.singledispatchmethod):
            self._all((value.dispatcher, value.func), depth)
        elif is_a(value, property):   # its functions are looked at where somebody names it
            self._all((part for part in (value.fget, value.fset, value.fdel) if not is_a(part, types.FunctionType)), depth)
        elif is_a(value, (staticmethod, classmethod)):
            self._all(() if is_a(value.__func__, types.FunctionType) else (value.__func__,), depth)
        elif is_a(value, OF_C):
            self._of_c(value, depth)
        elif is_a(value, CACHED):
            self._results(value, depth)
        elif value is sys.modules:
            self._unknown = "modules by their names"
        elif is_a(value, types.CellType):
            self.cells.append(value)
            self._variable(functools.partial(cell_content, value), cell_content(value), depth)
        elif is_a(value, (list, tuple, collections.deque)):
            self._container(value, enumerate(itertools.islice(values_in(value), ITEMS)), depth)
        elif is_a(value, dict):
            self._container(value, itertools.islice(dict.items(value), ITEMS), depth)
        elif is_a(value, (set, frozenset)):
            self._set(value, depth)
        elif is_a(value, weakref.ref):
            self._variable(value, value(), depth)
        elif is_a(value, WEAK):
            self.containers.append(value.data)
            self._container(value.data, itertools.islice(value.data.items(), ITEMS), depth)
        elif is_a(value, logging.Logger):
            self.loggers.append(value)
        elif is_a(value, GETTERS):
            self.named.update(part for text in value.__reduce__()[1] if is_a(text, str) for part in text.split("."))
        elif not is_a(value, types.ModuleType):
            self._object(value, depth)

    def _variable(self, read, value, depth):
        before = self._found
        self.add(value, depth - 1)
        if self._found > before:
            self.variables.append((read, value))

    def _all(self, values, depth):
        for value in list(values):
            self.add(value, depth - 1)

    def _container(self, container, items, depth):
        """The items are variables too; and how many there are, where some of them matter."""
        before, items = self._found, [(key, item) for key, item in items if type(item) not in PLAIN]
        for key, item in items:
            self._variable(functools.partial(item_of, container, key), item, depth)
        if self._found > before and not is_a(container, tuple):
            self._members(container, (item for _, item in items))

    def _set(self, value, depth):
        before = self._found
        self._all(itertools.islice(values_in(value), ITEMS), depth)
        if self._found > before and not is_a(value, frozenset):
            self._members(value, values_in(value))

    def _members(self, container, items):
        """Of a dict with tensors or modules which keys it has and in what order, of such a set what it holds; how many items others have."""
        if is_a(container, (dict, set)) and any(is_a(item, (torch.Tensor, torch.nn.Module)) for item in items) and length_of(container) <= ITEMS:
            now = Members(keys_of(container))
            self.variables.append((lambda: unless_others(keys_of(container), now), now))
        elif not is_a(container, set):   # whose values are compared
            self.variables.append((functools.partial(length, container), length(container)))

    def _of_tensor(self, tensor, depth):
        """Libraries put attributes on each parameter: only those that somebody names count (watch.py)."""
        if space_of(tensor):
            self.marked.append((tensor, depth))

    def attributes_of_tensors(self):
        """Tells how many those have that the function finds elsewhere; None where it finds none."""
        tensors = [*self.tensors, *(tensor for module in self.modules for tensor in (*module._parameters.values(), *module._buffers.values()))]
        return (lambda: sum(map(len, core().attributed(tensors)))) if tensors else None

    def add_attributes(self, names):
        """Of tensors, those that the program has put there."""
        for tensor, depth in self.marked:
            space = space_of(tensor)
            named = [name for name in space if name in names]
            if named:
                self.objects.append(tensor)
                self.spaces.append((space, None))
                self._attributes(tensor, named, depth)

    def _of_c(self, value, depth):
        """A function in C, or a method of an object: `get = table.get`."""
        if value in ASKING:
            self.computes = True
        owner = value.__self__
        if owner is not None and not is_a(owner, (types.ModuleType, type)):
            self.containers.append(self._held(owner, (owner,)))
            self.add(owner, depth - 1)

    def _results(self, cached, depth):
        """What functools.lru_cache holds, which the function hands out."""
        results = handed_out(cached)
        self.caches.append(cached)
        self.containers.extend(value for value in results if is_a(value, (list, dict)))
        self._all(results[:ITEMS], depth)

    def _held(self, owner, items):
        """A list of them, in the owner's place."""
        made = list(items)
        self.stands_for[id(made)] = id(owner)
        return made

    def _module(self, module, depth):
        self._found += 1
        for part in module.modules():
            if is_a(part, torch.jit.ScriptModule):
                raise Unsupported(part)   # its tensors stand outside Python
            if part not in self._parts:
                self._parts.add(part)
                self.modules.append(part)
                self.spaces.append((vars(part), None))
                self._of_kind(vars(part), type(part))
                self._kind(type(part), depth)
                self.libraries.of_kind(type(part))
                self._attributes(part, [name for name in vars(part) if name not in OWN], depth)
                self._all((*part._forward_hooks.values(), *part._forward_pre_hooks.values()), depth)
                for tensor in (*part._parameters.values(), *part._buffers.values()):
                    self._of_tensor(tensor, depth)

    def _object(self, value, depth):
        kind, space = type(value), space_of(value)
        self._kind(kind, depth)
        if not (is_own(kind) or is_holder(kind)):
            return
        slots = slots_of(kind)
        if type(space) is dict or slots:
            self.objects.append(value)
        if type(space) is dict:
            self.spaces.append((space, None))
            self._of_kind(space, kind)
            self._attributes(value, list(space), depth)
        if slots:
            self.slotted.append((value, slots))
        for name in slots:
            self._variable(functools.partial(slot_value, value, name), slot_value(value, name), depth)

    def _descriptors(self, kind, depth):
        """Objects of the program's own that say what an attribute of the class is."""
        for member in list(vars(kind).values()):
            if hasattr(type(member), "__get__") and is_own(type(member)):
                self.add(member, depth - 1)

    def _class(self, kind, depth):
        """That the program names."""
        if is_own(kind):
            self.made.update(kind.__mro__)
            self.add(type(kind), depth - 1)
            self._kind(kind, depth)

    def _kind(self, kind, depth):
        """Attributes of a class and its bases; methods are looked at where somebody names them (watch.py)."""
        for part in kind.__mro__:
            if part not in self._kinds_met and is_own(part):
                self._kinds_met.add(part)
                self.kinds.append(part)
                self._descriptors(part, depth)
                for name, value in list(vars(part).items()):
                    if not is_a(value, types.FunctionType) and not (is_a(value, type) and not of_program(file_of(value))):
                        self._variable(functools.partial(vars(part).get, name), value, depth)

    def _own_module(self, module, names, depth):
        """What the code names of a Python module of the program's own."""
        if (id(module), *names) in self._own_modules:
            return
        self._own_modules.add((id(module), *names))
        space = vars(module)
        self._of(space, file_in(module))
        self.homes.extend([module] if id(space) not in self.packaged else ())   # packages get names of their own, as parts of them are imported
        reads_any = reads_all(names) and id(space) not in self.packaged
        named = [name for name in self._all_of(space) if not name.startswith("__")] if reads_any else [name for name in (*names, "__getattr__") if name in space]
        self.spaces.append((space, named))
        if type(module) is not types.ModuleType and of_program(file_of(type(module))):
            self._object(module, depth)
        with self._inside(space):
            for name in named:
                self._read(functools.partial(space.get, name), space.get(name), names, depth)

    @contextlib.contextmanager
    def _inside(self, space):
        before, self._in_package = self._in_package, id(space) in self.packaged
        yield
        self._in_package = before

    def _of(self, space, file):
        if file is not None and of_package(file):
            self.packaged.add(id(space))

    def _of_kind(self, space, kind):
        """Of an object's attributes, which methods of all its bases read."""
        self._of(space, file_of(kind))
        if any(of_package(file_of(part)) for part in kind.__mro__):
            self.read_by_packages.add(id(space))

    def _read(self, read, value, names, depth):
        if is_a(value, types.ModuleType) and is_own_home(value):
            return self._own_module(value, names, depth)
        self.libraries.of(value, names)
        self._variable(read, value, depth)

    def _attributes(self, value, names, depth):
        for name in names:
            held = vars(value)[name]
            if is_a(held, CONTAINERS) and length_of(held) > LONG:
                self._long.append((vars(value), name, depth))
            elif not is_own_method(held):
                self._variable(functools.partial(vars(value).get, name), held, depth)

    def add_long(self, names):
        """Containers that are named; whether there were any."""
        named = [row for row in self._long if row[1] in names]
        self._long = [row for row in self._long if row[1] not in names]
        for space, name, depth in named:
            self._variable(functools.partial(space.get, name), space.get(name), depth)
        return bool(named)

    def _function(self, value, depth):
        if is_a(value, types.MethodType):
            self.containers.extend([self._held(value.__self__, (value.__self__,))] if is_a(value.__self__, CONTAINERS) else ())
            return self._all((value.__self__, value.__func__), depth + 1)
        if depth < CALL_DEPTH and of_library(source_of(value)):
            if is_own_function(vars(value).get("__wrapped__")):   # behind a decorator of the library's the program's function keeps its attributes in what it made
                self._attributes_of_function(value, depth)
            return self._implementations(value, depth)
        if value not in self.ran:
            return
        packaged = of_package(source_of(value))
        self._followed[packaged] += 1
        if self.ran.bounded and self._followed[packaged] > (PACKAGE_FUNCTIONS if packaged else OWN_FUNCTIONS):
            self.left_out.add(packaged)
            return
        self.functions.append(value)
        self._of(value.__globals__, source_of(value))
        if reaches_modules_by_name(value.__code__) and of_program(source_of(value)):
            self._unknown = "modules by their names"
        with self._inside(value.__globals__):
            self._reads(value, depth)

    def _reads(self, value, depth):
        names, used = [*names_in(value.__code__)], [name for name in globals_in(value.__code__) if not is_builtin_type(name, value.__globals__)]
        computed = globals_computed(value.__code__) if id(value.__globals__) not in self.packaged else ()
        used += [name for name in (self._all_of(value.__globals__) if computed is None else computed) if name not in used]
        self.libraries.of_tensors(names)
        self.cells.extend(value.__closure__ or ())
        for cell in value.__closure__ or ():
            self._read(functools.partial(cell_content, cell), cell_content(cell), names, depth)
            self._by_any_name(None, cell_content(cell))
        self.spaces.append((value.__globals__, used))
        for name in used:
            self._read(functools.partial(value.__globals__.get, name), value.__globals__.get(name), names, depth)
            self._by_any_name(name, value.__globals__.get(name))
        self._modules_asked(value, names, depth)
        self._attributes_of_function(value, depth)
        self._all((*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()), depth)
        for name in imports_in(value.__code__, value.__globals__):
            self._imported(name, names, depth, id(value.__globals__) in self.packaged)

    def _by_any_name(self, name, value):
        """What reads attributes is known by its name; else here. Texts say which `format` asks for."""
        if type(value) is str:
            self.named.update(fields_of(value) if "{" in value else ())
        elif not self._in_package:
            self.computes |= name not in BY_NAMES and reads_any(value)

    def _modules_asked(self, value, names, depth):
        """Python modules of the program's own, for whatever name (`getattr(settings, name)`)."""
        for first, *rest in owners_asked(value.__code__) if id(value.__globals__) not in self.packaged else ():
            module = value.__globals__.get(first)
            for name in rest:
                module = vars(module).get(name) if is_a(module, types.ModuleType) else None
            if is_a(module, types.ModuleType) and is_own_home(module):
                self._own_module(module, [*names, "__dict__"], depth)

    def _all_of(self, space):
        """Whatever name may be asked for. Of a longer one the rest is not known."""
        if len(space) > PLACES:
            self._unknown = f"any of {len(space)} names"
        return [*space][:PLACES]

    def _imported(self, name, names, depth, by_package):
        """By the function itself, when it runs."""
        module = own_home(name)
        if not by_package and (module is not None or name not in sys.modules):
            self.variables.append((functools.partial(own_home, name), module))
        if module is not None:
            self._own_module(module, names, depth)

    def _attributes_of_function(self, value, depth):
        self.spaces.append((vars(value), None))
        self._attributes(value, [name for name in vars(value) if name != "__wrapped__"], depth)

    def _implementations(self, value, depth):
        """Of functools.singledispatch."""
        known = getattr(value, "registry", None)
        if is_a(known, types.MappingProxyType):
            now = Members(known.values())
            self._all(now, depth)
            self.variables.append((functools.partial(unless_others, known.values(), now), now))


def reads_any(value):
    """Attributes, whatever their names are: `from pickle import dumps as write`."""
    return any(value is each for each in READING) or is_a(value, (types.BuiltinFunctionType, types.FunctionType)) and value.__module__ in PICKLES


def may_change(value):
    """Something of the program's, or that holds such."""
    return is_own_function(value) or is_a(value, (torch.Tensor, torch.nn.Module, types.CellType, *CONTAINERS)) or not is_a(value, (*FUNCTIONS, type)) and is_own(type(value))


def name_of(kind):
    return f"a {kind.__qualname__}" if kind.__module__ == "builtins" else f"a {kind.__module__}.{kind.__qualname__}"


def has_own_attributes(value):
    """A number, text or container of a class of the program's, which puts attributes on it; an enum's members are what they are."""
    return type(space_of(value)) is dict and (is_own(type(value)) or is_a(value, functools.partial)) and not is_a(value, enum.Enum)


class Kept:
    """A jitted method in its object, where it comes when somebody asks for it (`Jitted.__get__`). Deep copies of the object, and what is pickled of it, have none."""

    def __new__(kind, bound=None, unbound=None):
        made = object.__new__(kind)
        made.bound, made.unbound = bound, unbound
        return made

    def __reduce__(self):
        return Kept, ()


def is_own_method(value):
    return is_a(value, Kept)


def is_random(value):
    numpy = sys.modules.get("numpy.random")
    return is_a(value, random.Random) or numpy is not None and is_a(value, (numpy.Generator, numpy.RandomState))


def space_of(value):
    """Without asking the program's own __getattr__."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


def slots_of(kind):
    return [name for part in kind.__mro__ for name, member in vars(part).items() if is_a(member, types.MemberDescriptorType) and is_own(part)]


def slot_value(value, name):
    try:
        return object.__getattribute__(value, name)
    except AttributeError:   # not set yet
        return None


def item_of(container, key):
    try:
        return container[key]
    except (IndexError, KeyError):
        return None


class Members(tuple):
    """What a container held: two of the same objects are alike."""


def identity(value):
    return tuple(map(id, value)) if type(value) is Members else id(value)


def keys_of(container):
    """What it holds, of a dict the keys, as its base class says."""
    return own_kind(container).__iter__(container)


def unless_others(items, then):
    """`then`, while the items are these in this order."""
    now = (*items,)
    return then if len(now) == len(then) and all(a is b or type(a) is type(b) is str and a == b for a, b in zip(now, then)) else None


def length(container):
    """The same object for the same number, so that `is` compares them."""
    return number(length_of(container))


@functools.lru_cache(maxsize=4096)
def number(value):
    return value


def cell_content(cell):
    try:
        return cell.cell_contents
    except ValueError:   # not filled yet
        return None
