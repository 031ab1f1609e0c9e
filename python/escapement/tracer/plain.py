"""What a function reads from elsewhere that is neither tensor nor module: numbers, strings, functions, objects in attributes, globals, closures, and in
lists and dicts of such. A recording has them as constants, so it serves only calls for which they are the same (docs/jit.md).

Watched is what some code that the function can reach names: `self.scale` if a method says `scale`. A counter that only others read costs nothing.
"""

import array
import builtins
import collections
import contextvars
import dis
import functools
import gc
import os
import sys
import threading
import types

import torch

from ..limits import ARRAY_BYTES, ITEMS, OBJECT_DEPTH, PLACES
from .library_objects import UNKNOWN, Looked, of_decimal, reading
from .names import JOINING, globals_computed, globals_in, reads_all
from .objects import is_a
from .search import OWN, cell_content, installed, is_own, is_own_method, item_of, slot_value, space_of

COMPARED = (int, float, complex, str, bytes, bool, type(None))   # by value; anything else by identity
HELD = (torch.Tensor, torch.nn.Module, torch.Generator)          # watched otherwise
LISTS = (list, dict)
SETS = (set, frozenset)
OF_OBJECTS = (types.BuiltinMethodType, types.MethodWrapperType)   # `iterator.__next__`, `q.qsize`
QUEUES = (collections.deque, *SETS)   # walked from one end to the other; sets of plain values in any order
NO_NAMES = ("builtins", "torch.nn.modules.module", "torch._tensor")
GRADIENTS = frozenset("""grad zero_grad clip_grad_norm_ clip_grad_norm clip_grad_value_ clip_grads_with_norm_ get_total_norm""".split())   # who says so may read them
NOT_CALLED = frozenset(("__init__", "__repr__", "__setstate__", "__getstate__", "reset_parameters", "extra_repr"))


class Plain:
    """The places that hold plain values: (dict or list, key), (cell, None), (function, None) for its code and defaults, (list or dict, None) for its contents,
    (object, name) for a slot, (thread local, name), (context variable, None), (Looked, "now") for what only the object itself tells."""

    def __init__(self, search):
        self.places, self._seen, self._kept = [], set(), []
        classes, self._namespaces = classes_of(search), frozenset(search.kinds)
        self._names, methods = names_read(search.functions, classes)
        self._names |= search.named
        self.reads_gradients = search.optimizers or not GRADIENTS.isdisjoint(self._names)
        asked = self._names
        self._own_names, self._unknown = names_of_own((*search.functions, *methods)), search.unknown
        if any(computes_names(function.__code__) for function in (*search.functions, *methods) if not installed(function.__code__.co_filename)):
            self._names = All()
            self._add_orders(search.objects)
        for kind in classes:
            self._add_class(kind)
        for space, names in search.spaces:
            self._add_space(space, names, OBJECT_DEPTH)
        for cell in search.cells:
            self._add(cell, None, cell_content(cell), OBJECT_DEPTH)
        for function in search.functions:
            self._add_function(function)
        for container in search.containers:
            self._add(container, None, container, 0)
        for owner, slots in search.slotted:
            self._kept.append(owner)
            for name in slots:
                if name in self._names:
                    self._add(owner, name, slot_value(owner, name), OBJECT_DEPTH)
        self._add_of_thread(search)
        self._add_loggers(search.loggers)
        self._add_environment(asked)
        if (read := of_decimal(self._own_names)) is not None:
            self.places.append((Looked(read), "now"))

    # --- places

    def _add(self, container, name, value, depth):
        """The place, and what can be changed behind it."""
        if is_a(value, HELD) or is_a(value, types.ModuleType) and installed(getattr(value, "__file__", None)):
            return
        if is_a(value, LISTS) and any(is_a(item, HELD) for item in items_of(value)):
            return self._add_items(value, depth)
        if len(self.places) < PLACES and (id(container), name) not in self._seen:
            self._seen.add((id(container), name))
            self.places.append((container, name))
            for found in held_in(value):
                self._look_at(found)
        if depth and not is_a(value, (*COMPARED, type, types.FunctionType, types.BuiltinFunctionType, tuple)):
            space = space_of(value)
            if type(space) is dict and id(space) not in self._seen and "__wrapped__" not in space:   # a decorated function is one
                self._add_space(space, None, depth - 1)

    def _look_at(self, value):
        """Where its state is in no place that the core compares."""
        if is_a(value, OF_OBJECTS) and value.__self__ is not None:
            return self._look_at(value.__self__)
        if type(value) in COMPARED or is_a(value, (types.FunctionType, types.ModuleType, type)) or (id(value), "now") in self._seen:
            return
        self._seen.add((id(value), "now"))
        self._kept.append(value)
        if is_a(value, tuple) and type(value) is not tuple:   # whose items are its own; what is in them is not
            self.places.append(([*tuple.__iter__(value)], None))
        read = reading(value, self._own_names, is_own)
        if read is UNKNOWN:
            self._unknown = True
        elif read is not None:
            self.places.append((Looked(read), "now"))

    def _add_orders(self, objects):
        """Attributes that are read all together are read in an order."""
        for owner in objects:
            if type(space_of(owner)) is dict:
                self._kept.append(owner)
                self.places.append((space_of(owner), None))

    def _add_of_thread(self, search):
        """What each thread, or each context, has for itself."""
        for variable in search.contexts:
            self._kept.append(variable)
            self._add(variable, None, variable.get(None), OBJECT_DEPTH)
        for owner in search.locals:
            self._kept.append(owner)
            for name in {*vars(owner), *(name for kind in type(owner).__mro__ for name in vars(kind) if is_own(kind))}:
                if name in self._names and not name.startswith("__"):
                    self._add(owner, name, getattr(owner, name, None), OBJECT_DEPTH)

    def _add_loggers(self, loggers):
        """What decides whether a message is wanted."""
        while loggers:
            for logger in loggers:
                for name in ("level", "disabled", "parent"):
                    self._add(vars(logger), name, vars(logger).get(name), 0)
                self._add(vars(logger.manager), "_disable", vars(logger.manager).get("_disable"), 0)
            loggers = {id(logger.parent): logger.parent for logger in loggers if logger.parent is not None}.values()

    def _add_environment(self, asked):
        """Variables of the process whose names stand beside `environ` or `getenv`, also such as are not set."""
        if "argv" in asked:
            self._add(vars(sys), "argv", sys.argv, OBJECT_DEPTH)
        if {"environ", "environb", "getenv", "getenvb"}.isdisjoint(asked):
            return
        space = os.environ._data   # what all ways of reading come to
        for name in space if is_a(self._names, All) else map(os.environ.encodekey, asked):
            if name in space or name.isupper():
                self._add(space, name, space.get(name), 0)

    def _add_items(self, container, depth):
        """Of a list or dict with tensors in it, which are the search's: the rest, each by itself."""
        if depth <= 0 or id(container) in self._seen or len(container) > ITEMS:
            return
        self._seen.add(id(container))
        self._kept.append(container)
        for key, item in [*dict.items(container)] if is_a(container, dict) else [*enumerate(list.__iter__(container))]:
            if key is not None:
                self._add(container, key, item, depth - 1)

    def _add_function(self, function):
        """What it runs, and what it takes where nothing is given."""
        self.places.append((function, None))
        self._kept.append(function)
        for found in held_in(raw(function, None)):
            self._look_at(found)
        self._add_space(vars(function), None, OBJECT_DEPTH)

    def _add_space(self, space, names, depth):
        self._seen.add(id(space))
        self._kept.append(space)
        for name in [*space] if names is None else names:
            if name in space and name in self._names and name not in OWN and not is_own_method(space[name]):
                self._add(space, name, space[name], depth)
            elif names is not None and name not in space and not hasattr(builtins, name):   # a global that may come yet
                self._add(space, name, None, 0)

    def _add_class(self, kind):
        """Attributes of a class of the program's own, its methods among them, also those that Python finds by names of its own (`__len__`)."""
        space = own_space(kind)
        if space is None:
            return
        self._add_space(space, [name for name in space if not name.startswith("__")], OBJECT_DEPTH if kind in self._namespaces else 0)
        for name, member in list(space.items()):
            if name.startswith("__") and name not in NOT_CALLED and is_a(member, types.FunctionType):
                self._add(space, name, member, 0)

    # --- values

    def values(self):
        """As the core compares them; for a Contents object."""
        return [(container, name, content_of(container, name)) for container, name in self.places]

    def objects(self):
        """What is compared by identity: behind it stand further places, or may."""
        return [found for *_, value in self.values() for found in objects_in(value)]

    def reached(self):
        """The ids of containers and objects in these places. They are not kept: what is no longer there must be asked for anew."""
        return {id(found) for place in self.places for found in inside(raw(*place)) if not is_a(found, COMPARED)}

    def key(self):
        """Equal for equal values. What is compared by identity must be kept while the key is."""
        unlike = (object(),) if self._unknown else ()   # two looks at what nobody can compare are never alike
        return tuple((name, frozen(content_of(container, name))) for container, name in self.places) + unlike


def content_of(container, name):
    if name is None and is_a(container, types.FunctionType):
        return container.__code__, copied(container.__defaults__), copied(container.__kwdefaults__)
    return copied(raw(container, name))


def raw(container, name):
    if is_a(container, threading.local):
        return getattr(container, name, None)
    if name is not None:
        return dict.get(container, name) if is_a(container, dict) else item_of(container, name) if is_a(container, list) else slot_value(container, name)
    if is_a(container, types.FunctionType):
        return container.__defaults__, container.__kwdefaults__
    if is_a(container, contextvars.ContextVar):
        return container.get(None)
    return cell_content(container) if is_a(container, types.CellType) else container


def inside(value, depth=OBJECT_DEPTH + 1):
    """The value and, of a list, dict or tuple, what it holds."""
    yield value
    if depth and type(value) in (*LISTS, tuple):
        for item in items_of(value):
            yield from inside(item, depth - 1)


def held_in(value, depth=OBJECT_DEPTH + 1):
    """The same, also of queues and sets, and of containers of the program's own classes."""
    yield value
    if depth and is_a(value, (*LISTS, tuple, *QUEUES)) and len(value) <= ITEMS:
        for item in items_of(value) if is_a(value, (*LISTS, tuple)) else [*value]:
            if type(item) not in COMPARED:
                yield from held_in(item, depth - 1)


def copied(value, depth=OBJECT_DEPTH):
    """Containers as they are now: they are compared by what they hold. An array is the same object with the same bytes."""
    if is_memory(value):
        return value, bytes_of(value)
    if is_array_of_objects(value):
        return value, [copied(item, depth - 1) for item in value.flat] if depth else value
    if is_plain_set(value):
        return frozenset(value)
    if depth == 0 or not (is_a(value, (*LISTS, tuple)) or type(value) in QUEUES) or len(value) > ITEMS:
        return value
    if type(value) in QUEUES:
        return value if any(is_a(item, HELD) for item in value) else [copied(item, depth - 1) for item in [*value]]
    if is_a(value, dict):
        return {key: copied(item, depth - 1) for key, item in list(dict.items(value))}
    if is_a(value, list):
        return [copied(item, depth - 1) for item in list.__iter__(value)]
    return tuple(copied(item, depth - 1) for item in value) if type(value) is tuple else value


def is_plain_set(value):
    """Comparing sets of such runs none of the program's code."""
    return type(value) in SETS and len(value) <= ITEMS and all(type(item) in COMPARED for item in value)


def bytes_of(value):
    return sys.modules["numpy"].ndarray.tobytes(value) if is_array(value) else bytes(memoryview(value))


def is_memory(value):
    if type(value) in (bytearray, array.array, memoryview) or is_of_c(value) or is_mapped(value):
        try:
            view = memoryview(value)
        except ValueError:   # released
            return False
        return view.c_contiguous and view.nbytes <= ARRAY_BYTES
    return is_array(value) and value.nbytes <= ARRAY_BYTES and value.flags.c_contiguous and not value.dtype.hasobject


def is_array(value):
    numpy = sys.modules.get("numpy")
    return numpy is not None and is_a(value, numpy.ndarray)


def is_mapped(value):
    mmap = sys.modules.get("mmap")
    return mmap is not None and is_a(value, mmap.mmap)


def is_array_of_objects(value):
    return is_array(value) and value.dtype.hasobject and value.size <= ITEMS


def is_of_c(value):
    """Numbers, structures and arrays of ctypes; a pointer's memory is not its own."""
    ctypes = sys.modules.get("ctypes")
    return ctypes is not None and is_a(value, (ctypes._SimpleCData, ctypes.Structure, ctypes.Union, ctypes.Array))


def objects_in(value, depth=OBJECT_DEPTH + 1):
    if depth and type(value) in (*LISTS, tuple) and len(value) <= ITEMS:
        return [found for item in items_of(value) for found in objects_in(item, depth - 1)]
    return [] if is_a(value, COMPARED) or is_plain_set(value) else [value]


def frozen(value, depth=OBJECT_DEPTH):
    if type(value) is float:
        return float, value.hex()
    if type(value) in COMPARED:
        return type(value), repr(value) if type(value) is complex else value
    if is_plain_set(value):
        return frozenset(map(frozen, value))
    if depth and type(value) in (*LISTS, tuple) and len(value) <= ITEMS:
        return type(value), tuple(frozen(item, depth - 1) for item in items_of(value))
    return id(value)


def items_of(container):
    """Of a dict keys and values by turns. As the core walks them, whatever a class of the program's own would say."""
    if is_a(container, dict):
        return tuple(item for pair in list(dict.items(container)) for item in pair)
    return tuple(list.__iter__(container)) if is_a(container, list) else container


def own_space(kind):
    """The dict behind `vars` of a class of the program's own."""
    found = gc.get_referents(vars(kind)) if is_own(kind) else ()
    return next((space for space in found if type(space) is dict), None)


# --- names

def classes_of(search):
    found = (*map(type, (*search.modules, *search.objects)), *search.kinds)
    kinds = {kind for first in found for kind in first.__mro__}
    return sorted((kind for kind in kinds if kind.__module__ not in NO_NAMES), key=lambda kind: (kind.__module__, kind.__qualname__))


def methods_named(search):
    """Of the program's own classes."""
    classes = classes_of(search)
    return [function for function in names_read(search.functions, classes)[1] if not installed(function.__code__.co_filename)]


def names_read(functions, classes):
    """By these functions, by those of the classes' methods that somebody names, and by functions beside them that these name; and these methods."""
    methods = {(kind, name): function for kind in classes for name, function in methods_of(kind) if name not in NOT_CALLED}
    names, waiting, met, called = {"forward", "__call__"}, list(functions), set(), []
    while True:
        if not waiting:
            waiting = [methods.pop(key) for key in [*methods] if key[1] in names or key[1].startswith("__")]
            called.extend(waiting)
        if not waiting:
            return names, called
        function = waiting.pop()
        if function.__code__ not in met:
            met.add(function.__code__)
            found = names_of(function.__code__)
            names |= found
            waiting.extend(beside(function, found))


def beside(function, names):
    """Functions of the same file."""
    known = map(function.__globals__.get, names)
    return [other for other in known if is_a(other, types.FunctionType) and other.__globals__ is function.__globals__]


def methods_of(kind):
    for name, value in list(vars(kind).items()):
        function = getattr(value, "__func__", None) or getattr(value, "fget", None) or getattr(value, "func", value)   # the last of functools.partialmethod and the like
        if is_a(function, types.FunctionType):
            yield name, function


def names_of_own(functions):
    """In the program's own code."""
    return frozenset().union(*(names_of(function.__code__) for function in functions if not installed(function.__code__.co_filename)))


class All:
    """Whatever name is asked for."""

    def __contains__(self, name):
        return True


@functools.lru_cache(maxsize=4096)
def computes_names(code):
    """Attributes are read all together, or by names that are put together."""
    names, inner = frozenset(code.co_names), [item for item in code.co_consts if is_a(item, types.CodeType)]
    joined = not names.isdisjoint(("getattr", "globals", "eval", "exec")) and any(step.opname in JOINING for step in dis.get_instructions(code))
    return reads_all(names) or "asdict" in names or "dir" in globals_in(code) or globals_computed(code) is None or joined or any(map(computes_names, inner))


def names_of(code):
    """Globals, attributes, and what stands in texts (`getattr(self, "scale")`, `eval("scale + 1")`)."""
    found = {*code.co_names, *(globals_computed(code) or ())}
    for item in code.co_consts:
        if is_a(item, str) and item.isidentifier():
            found.add(item)
        elif is_a(item, types.CodeType):
            found |= names_of(item)
    return found
