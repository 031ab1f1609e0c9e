"""Which tensors and modules a Python function can reach, and through which variables.

Reached: the function itself, bound objects, partial arguments, defaults, closures, globals named in the code, functions,
classes and plain objects found there, methods of these that somebody names (watch.py), what is named of the program's own
Python modules, and lists and dicts of such. What hides elsewhere (attributes of libraries, properties) is not watched:
docs/jit.md says so.

A variable counts if a tensor or module is found behind it: its replacement then replaces what the function computes with.
"""

import collections
import contextvars
import enum
import functools
import itertools
import logging
import operator
import random
import sys
import sysconfig
import threading
import types
import weakref

import torch

from ..limits import CALL_DEPTH, ITEMS, PLACES
from ..recording.locator import FRAMEWORK
from .library_objects import behind, is_holder
from .names import globals_in, globals_computed, imports_in, names_in, reads_all
from .objects import is_a
from .tree import Unsupported

CONTAINERS = (list, tuple, dict, set, frozenset, collections.deque)
FUNCTIONS = (types.FunctionType, types.MethodType)
PLAIN = frozenset((str, bytes, int, float, complex, bool))
NOT_SEARCHED = (str, bytes, int, float, complex, torch.dtype, torch.device)
OWN = frozenset(vars(torch.nn.Module()))             # attributes of every module
WEAK = weakref.WeakKeyDictionary, weakref.WeakValueDictionary
GETTERS = operator.attrgetter, operator.itemgetter, operator.methodcaller
LIBRARIES = (*FRAMEWORK, *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


class Search:
    """Depth first; an object again only where it is met with more depth left."""

    def __init__(self):
        self.modules, self.tensors, self.generators = [], [], []
        self.variables = []   # (read, value): behind the value stands a tensor or a module
        self.spaces = []      # (dict, names or None for all): where the function may rebind something
        self.cells = []
        self.functions, self.objects, self.containers = [], [], []   # the program's own; lists and dicts that partial functions and optimisers hold
        self.kinds, self.slotted, self.randoms = [], [], []          # classes; (object, names of its slots); generators of Python's and NumPy's
        self.contexts, self.locals, self.homes = [], [], []          # context variables; thread locals; Python modules of the program's own
        self.loggers, self.marked = [], []                           # marked: (tensor with attributes, depth)
        self.named, self.optimizers = set(), False                   # names that callables hold (operator.attrgetter)
        self.unknown = False                                         # something that nobody can compare is read
        self._found = 0       # tensors and modules met so far
        self._seen = {}       # id -> (depth, whether anything was found, object): kept, so that no address is met twice
        self._parts, self._own_modules = set(), set()

    def add(self, value, depth):
        if depth == 0 or value is None or type(value) in PLAIN or is_a(value, NOT_SEARCHED) and not has_own_attributes(value):
            return
        known, fruitful, _ = self._seen.get(id(value), (0, False, None))
        if known >= depth:
            self._found += fruitful
            return
        before = self._found
        self._seen[id(value)] = depth, False, value   # a cycle ends here
        self._visit(value, depth)
        self._seen[id(value)] = depth, self._found > before, value

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
        if "__wrapped__" in getattr(value, "__dict__", ()):   # decorated, by whatever library: jitted functions are such
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
        elif is_a(value, functools.partial):
            self.containers.extend((value.keywords, list(value.args)))
            self._all((value.func, *value.args, *value.keywords.values()), depth)
        elif is_a(value, types.CellType):
            self.cells.append(value)
            self._variable(functools.partial(cell_content, value), cell_content(value), depth)
        elif is_a(value, (list, tuple, collections.deque)):
            self._container(value, list(enumerate(itertools.islice(value, ITEMS))), depth)
        elif is_a(value, dict):
            self._container(value, list(itertools.islice(value.items(), ITEMS)), depth)
        elif is_a(value, (set, frozenset)):
            self._set(value, depth)
        elif is_a(value, weakref.ref):
            self._variable(value, value(), depth)
        elif is_a(value, WEAK):
            self.containers.append(value.data)
            self._container(value.data, list(itertools.islice(value.data.items(), ITEMS)), depth)
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
        before = self._found
        for key, item in items:
            self._variable(functools.partial(item_of, container, key), item, depth)
        if self._found > before and not is_a(container, tuple):
            self._members(container, (item for _, item in items))

    def _set(self, value, depth):
        before = self._found
        self._all(itertools.islice(value, ITEMS), depth)
        if self._found > before and not is_a(value, frozenset):
            self._members(value, value)

    def _members(self, container, items):
        """Of a dict with tensors or modules which keys it has and in what order, of such a set what it holds; how many items others have."""
        if is_a(container, (dict, set)) and any(is_a(item, (torch.Tensor, torch.nn.Module)) for item in items) and len(container) <= ITEMS:
            now = Members(container)
            self.variables.append((functools.partial(unless_others, container, now), now))
        elif not is_a(container, set):   # whose values are compared
            self.variables.append((functools.partial(small_length, container), small_length(container)))

    def _of_tensor(self, tensor, depth):
        """Libraries put attributes on each parameter: only those that somebody names count (watch.py)."""
        if space_of(tensor):
            self.marked.append((tensor, depth))

    def add_attributes(self, names):
        """Of tensors, those that the program has put there."""
        for tensor, depth in self.marked:
            space = space_of(tensor)
            named = [name for name in space if name in names]
            if named:
                self.objects.append(tensor)
                self.spaces.append((space, None))
                self._attributes(tensor, named, depth)

    def _module(self, module, depth):
        self._found += 1
        for part in module.modules():
            if is_a(part, torch.jit.ScriptModule):
                raise Unsupported(part)   # its tensors stand outside Python
            if part not in self._parts:
                self._parts.add(part)
                self.modules.append(part)
                self.spaces.append((vars(part), None))
                self._attributes(part, [name for name in vars(part) if name not in OWN], depth)
                self._all((*part._forward_hooks.values(), *part._forward_pre_hooks.values()), depth)
                for tensor in (*part._parameters.values(), *part._buffers.values()):
                    self._of_tensor(tensor, depth)

    def _object(self, value, depth):
        kind, space = type(value), space_of(value)
        self._descriptors(kind, depth)
        if not (is_own(kind) or is_holder(kind)):
            return
        slots = slots_of(kind)
        if type(space) is dict or slots:
            self.objects.append(value)
        if type(space) is dict:
            self.spaces.append((space, None))
            self._attributes(value, list(space), depth)
        if slots:
            self.slotted.append((value, slots))
        for name in slots:
            self._variable(functools.partial(slot_value, value, name), slot_value(value, name), depth)

    def _descriptors(self, kind, depth):
        """Objects of the program's own that say what an attribute of the class is."""
        for part in kind.__mro__:
            for member in list(vars(part).values()) if is_own(part) else ():
                if hasattr(type(member), "__get__") and is_own(type(member)):
                    self.add(member, depth - 1)

    def _class(self, kind, depth):
        """Attributes of a class that the program names; methods are looked at where somebody names them (watch.py)."""
        if is_own(kind):
            self.kinds.append(kind)
            self.add(type(kind), depth - 1)
            self._descriptors(kind, depth)
            for name, value in list(vars(kind).items()):
                if not is_a(value, (*FUNCTIONS, type)):
                    self._variable(functools.partial(vars(kind).get, name), value, depth)

    def _own_module(self, module, names, depth):
        """What the code names of a Python module of the program's own."""
        if (id(module), *names) in self._own_modules:
            return
        self._own_modules.add((id(module), *names))
        self.homes.append(module)
        space = vars(module)
        named = [name for name in self._all_of(space) if not name.startswith("__")] if reads_all(names) else [name for name in names if name in space]
        self.spaces.append((space, named))
        for name in named:
            self._read(functools.partial(space.get, name), space.get(name), names, depth)

    def _read(self, read, value, names, depth):
        if is_a(value, types.ModuleType) and is_own_home(value):
            self._own_module(value, names, depth)
        else:
            self._variable(read, value, depth)

    def _attributes(self, value, names, depth):
        for name in names:
            if not is_own_method(vars(value)[name]):
                self._variable(functools.partial(vars(value).get, name), vars(value)[name], depth)

    def _function(self, value, depth):
        if is_a(value, types.MethodType):
            return self._all((value.__self__, value.__func__), depth + 1)
        if depth < CALL_DEPTH and installed(value.__code__.co_filename):
            return self._implementations(value, depth)
        self.functions.append(value)
        names, used = [*names_in(value.__code__)], [*globals_in(value.__code__)]
        computed = globals_computed(value.__code__)
        used += [name for name in (self._all_of(value.__globals__) if computed is None else computed) if name not in used]
        self.cells.extend(value.__closure__ or ())
        for cell in value.__closure__ or ():
            self._read(functools.partial(cell_content, cell), cell_content(cell), names, depth)
        self.spaces.extend(((value.__globals__, used), (vars(value), None)))
        for name in used:
            self._read(functools.partial(value.__globals__.get, name), value.__globals__.get(name), names, depth)
        self._attributes(value, [name for name in vars(value) if name != "__wrapped__"], depth)
        self._all((*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()), depth)
        for name in imports_in(value.__code__, value.__globals__):
            self._imported(name, names, depth)

    def _all_of(self, space):
        """Whatever name may be asked for. Of a longer one the rest is not known."""
        self.unknown |= len(space) > PLACES
        return [*space][:PLACES]

    def _imported(self, name, names, depth):
        """By the function itself, when it runs."""
        module = own_home(name)
        if module is not None or name not in sys.modules:
            self.variables.append((functools.partial(own_home, name), module))
        if module is not None:
            self._own_module(module, names, depth)

    def _implementations(self, value, depth):
        """Of functools.singledispatch."""
        known = getattr(value, "registry", None)
        if is_a(known, types.MappingProxyType):
            now = Members(known.values())
            self._all(now, depth)
            self.variables.append((functools.partial(unless_others, known.values(), now), now))


def installed(file):
    """Of a library, the standard one or this package: their functions and objects are not the program's state."""
    return file is None or file.startswith(LIBRARIES)


def is_own_home(module):
    """A Python module of the program's, one that it made itself among them."""
    file = getattr(module, "__file__", None)
    return not installed(file) or file is None and type(module) is types.ModuleType and module.__spec__ is None and module.__name__ != "builtins"


def own_home(name):
    """None as long as it is not imported."""
    module = sys.modules.get(name)
    return module if is_a(module, types.ModuleType) and is_own_home(module) else None


def is_own(kind):
    """A class of the program's."""
    home = sys.modules.get(kind.__module__)
    return kind.__module__ == "__main__" or kind.__module__ != "builtins" and not installed(getattr(home, "__file__", None))


def has_own_attributes(value):
    """A number, text or container of a class of the program's, which puts attributes on it; an enum's members are what they are."""
    return type(space_of(value)) is dict and (is_own(type(value)) or is_a(value, functools.partial)) and not is_a(value, enum.Enum)


def is_own_method(value):
    """Of a jitted method, which comes into an object when somebody asks for it (`Jitted.__get__`)."""
    own = space_of(value)
    return type(own) is dict and "escapement_contract" in own and is_a(own.get("__wrapped__"), types.MethodType)


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


def unless_others(items, then):
    """`then`, while the items are these in this order."""
    now = (*items,)
    return then if len(now) == len(then) and all(a is b or type(a) is type(b) is str and a == b for a, b in zip(now, then)) else None


def small_length(container):
    """Small integers are one object each, so that `is` compares them."""
    return min(len(container), ITEMS)


def cell_content(cell):
    try:
        return cell.cell_contents
    except ValueError:   # not filled yet
        return None
