"""What a function reads from elsewhere that is neither tensor nor module: numbers, strings, functions, objects in attributes, globals, closures, and in
lists and dicts of such. A recording has them as constants, so it serves only calls for which they are the same (docs/jit.md).

Watched is what some code that the function can reach names: `self.scale` if a method says `scale`. A counter that only others read costs nothing. Where
something of it cannot be compared at every call, `unknown` says what, and the function goes on in replay mode.
"""

import abc
import array
import builtins
import collections
import contextvars
import enum
import functools
import io
import logging
import os
import sys
import threading
import types

import torch

from ..limits import ARRAY_BYTES, ITEMS, OBJECT_DEPTH, PLACES
from .asked import NOT_CALLED, All, classes_of, may_be_anything, names_in_class, names_of_own, names_read
from .library_objects import UNKNOWN, Looked, answering, data_parts, of_decimal, reading
from .names import ENVIRONMENT, EXPANDING, reaches_modules_by_name, shown_or_compared, texts_in, variables_in
from .objects import is_a, length_of, space_of_class, values_in
from .homes import file_in, file_of, is_own, of_library, of_package, of_program, source_of
from .number_types import NAME, modules_naming_it
from .outside import is_unseen
from .search import OWN, cell_content, is_own_method, item_of, name_of, slot_value, space_of
from .while_recording import stood_for

COMPARED = (int, float, complex, str, bytes, bool, type(None))   # by value; anything else by identity
ALIKE = frozenset((int, float, str, bytes, bool))                # of which equal ones of one type cannot be told apart, floats by their bytes
HELD = (torch.Tensor, torch.nn.Module, torch.Generator)          # watched otherwise
LISTS = (list, dict)
MEMORY = (bytearray, array.array, memoryview)
NOT_WALKED = (*COMPARED, type, types.FunctionType, types.BuiltinFunctionType, tuple, enum.Enum)   # an enum's members are what they are
LOGGING = logging.Logger, logging.Handler, logging.Manager   # what counts of these is watched by itself, but for what the program puts there
OF_LOGGING = frozenset(name for made in (logging.Logger(""), logging.NullHandler(), logging.StreamHandler(io.StringIO()), logging.root.manager) for name in vars(made))
SETS = (set, frozenset)
OF_OBJECTS = (types.BuiltinMethodType, types.MethodWrapperType)   # `iterator.__next__`, `q.qsize`
QUEUES = (collections.deque, *SETS)   # walked from one end to the other; sets of plain values in any order
GRADIENTS = frozenset("""grad zero_grad clip_grad_norm_ clip_grad_norm clip_grad_value_ clip_grads_with_norm_ get_total_norm""".split())   # who says so may read them
ATTRIBUTES = frozenset(("getattr", "hasattr", "vars", "__dict__"))   # who says so may ask a tensor for attributes that come later


class Plain:
    """The places that hold plain values: (dict or list, key), (cell, None), (function, None) for its code and defaults, (list or dict, None) for its contents,
    (object, name) for a slot, (thread local, name), (context variable, None), (Looked, "now") for what only the object itself tells."""

    def __init__(self, search):
        self.places, self._seen, self._kept, self._stands_for = [], set(), [], search.stands_for
        self._answers = set()   # that are compared
        self._any_variable = False   # of the process is asked for, by functions under other names
        classes, self._packaged = classes_of(search), search.packaged
        self._data = {}   # id of a dict of attributes -> names besides, for methods of libraries that read data
        self._shown = spaces_shown(search)
        for owner in search.objects:
            self._note_data(owner)
        self._searched = {id(space) for space, _ in search.spaces}   # which are added in any case
        self._names, methods = names_read([function for function in search.functions if not of_package(source_of(function))], classes, search.named, search.made, search.counts)
        self._names_of_packages = names_read(search.functions, classes, search.named, search.made, search.counts)[0]
        self._read_by_packages = search.read_by_packages
        self.reads_gradients = search.optimizers or not GRADIENTS.isdisjoint(self._names)
        asked = self._asked = self._names
        self._own_names, self.unknown = names_of_own((*search.functions, *methods)), search.unknown   # what nobody can compare, or None
        if may_be_anything(search, methods):
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
            self._add(container, None, container, OBJECT_DEPTH)
        for owner, slots in search.slotted:
            self._kept.append(owner)
            for name in slots:
                if name in (self._names_of_packages if id(owner) in search.read_by_packages else self._names):
                    self._add(owner, name, slot_value(owner, name), OBJECT_DEPTH)
        for space, name in search.libraries.places():
            if (id(space), name) not in self._seen:
                self._seen.add((id(space), name))
                self.places.append((space, name))
            self._ask_of(space.get(name), named=name in self._own_names)
        programs = [function for function in (*search.functions, *methods) if of_program(source_of(function))]
        self.places.extend((space, NAME) for space in modules_naming_it(programs) if (id(space), NAME) not in self._seen)   # which it may define yet
        self._add_of_thread(search)
        self._add_loggers([*search.loggers, *(loggers_named(search.functions) if "getLogger" in self._own_names else ())])
        self._add_asked(search)
        self._add_seeds(search.randoms)
        self._add_streams()
        self._add_environment((*search.functions, *methods), asked)
        if (read := of_decimal(self._own_names)) is not None:
            self.places.append((self._looked(read, read), "now"))
        self.places.sort(key=self._rank)

    def _looked(self, read, owner):
        looked = Looked(read)
        self._stands_for[id(looked)] = id(owner) if owner is not read else 0
        return looked

    def _rank(self, place):
        """The same places are in the same order, whatever way they were met."""
        container, name = place
        return self._stands_for.get(id(container), id(container)), str(name)

    def is_named(self, space):
        """Whether the function, or what it calls, names one of these attributes."""
        return any(name in self._names or name in self._names_of_packages for name in space)

    # --- places

    def _add(self, container, name, value, depth):
        """The place, and what can be changed behind it."""
        if is_a(value, HELD):
            return
        if is_a(value, types.ModuleType) and of_library(file_in(value)):   # which it is, not what it holds
            self._seen.add((id(container), name))
            return self.places.append((container, name))
        if is_a(value, LISTS) and any(is_a(item, HELD) for item in items_of(value)):
            return self._add_items(value, depth)
        if (id(container), name) not in self._seen:
            self._seen.add((id(container), name))
            self._add_place(container, name, value)
        if not is_a(value, NOT_WALKED):
            space = space_of(value)
            if type(space) is dict and id(space) not in self._seen and "__wrapped__" not in space:   # a decorated function is one
                self._add_behind(value, space, name, depth)

    def _add_place(self, container, name, value, judged=True):
        self.places.append((container, name))
        left_out = not_compared(value) if judged else None
        if left_out or len(self.places) > PLACES:
            self._give_up(left_out or f"more than {PLACES} places", name)
        for found in held_in(value):
            self._look_at(found)
            self._any_variable |= name not in ENVIRONMENT and is_environment(found)

    def _add_behind(self, value, space, name, depth):
        """Attributes of an object."""
        self._note_data(value)
        if is_a(value, LOGGING) and id(space) not in self._searched:
            self._add_space(space, [each for each in space if each in self._asked and each not in OF_LOGGING], 0)
        elif depth:
            self._add_space(space, None, depth - 1)
        elif id(space) not in self._searched and any(attribute in self._names for attribute in space):
            self._give_up(f"{name_of(type(value))} that lies more than {OBJECT_DEPTH} objects deep", name)

    def _note_data(self, owner):
        parts = data_parts(type(owner))
        if id(owner) in self._shown:   # its own words for that are written in C
            self._data[id(space_of(owner))] = [name for name, value in space_of(owner).items() if is_a(value, (*COMPARED, *LISTS, tuple))]
        if parts:
            self._data[id(space_of(owner))] = frozenset().union(*map(names_in_class, parts))

    def _give_up(self, what, name=None):
        self.unknown = self.unknown or (f"{what} in {name}" if type(name) is str else what)

    def _look_at(self, value):
        """Where its state is in no place that the core compares."""
        self._ask_of(value)
        if is_a(value, OF_OBJECTS) and value.__self__ is not None:
            return self._look_at(value.__self__)
        if type(value) in COMPARED or is_a(value, (types.FunctionType, types.ModuleType, type)) or (id(value), "now") in self._seen:
            return
        self._seen.add((id(value), "now"))
        self._kept.append(value)
        if is_a(value, tuple) and type(value) is not tuple:   # whose items are its own; what is in them is not
            items = [*tuple.__iter__(value)]
            self._stands_for[id(items)] = id(value)
            self.places.append((items, None))
        read = reading(value, self._own_names, is_own)
        if read is UNKNOWN:
            self._give_up(name_of(type(value)))
        elif read is not None:
            self.places.append((self._looked(read, value), "now"))

    def _ask_of(self, value, named=True):
        """What a function of a library tells, or changes, behind which nothing can be compared. `named`: by the program, not by libraries among themselves."""
        if named and is_unseen(value):
            self._give_up(f"what {value.__name__}() sets or tells")
        read = answering(value)
        if read is not None and read not in self._answers:
            self._answers.add(read)
            self.places.append((self._looked(read, value), "now"))

    def _add_seeds(self, randoms):
        """Of NumPy's older generators, whose methods nobody sees."""
        older = getattr(sys.modules.get("numpy.random"), "RandomState", ())
        if not self._own_names.isdisjoint(("seed", "set_state", "get_state")) and any(is_a(each, older) for each in randoms):
            self._give_up("the state of a generator of NumPy's")

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
                if (name in self._names or name in self._names_of_packages) and not name.startswith("__"):
                    self._add(owner, name, getattr(owner, name, None), OBJECT_DEPTH)
            self.places.append((self._looked(functools.partial(names_of_thread, owner), owner), "now"))

    def _add_asked(self, search):
        """What questions of the program's own code are about."""
        if "__subclasses__" in self._own_names:
            self._give_up("the subclasses of a class")
        if any(type(kind) is abc.ABCMeta and is_own(kind) for kind in search.made):   # `register` makes others instances of it
            self.places.append((self._looked(abc.get_cache_token, abc), "now"))
        self.attributes_of_tensors = search.attributes_of_tensors() if not ATTRIBUTES.isdisjoint(self._own_names) else None
        if self.attributes_of_tensors:
            self.places.append((self._looked(self.attributes_of_tensors, torch), "now"))

    def _add_loggers(self, loggers):
        """What decides whether a message is wanted."""
        asks_handlers = not self._own_names.isdisjoint(("handlers", "hasHandlers"))
        while loggers:
            for logger in loggers:
                for name in ("level", "disabled", "parent", "propagate", *(["handlers"] if asks_handlers else ())):
                    self._add(vars(logger), name, vars(logger).get(name), 0)
                self._add(vars(logger.manager), "_disable", vars(logger.manager).get("_disable"), 0)
            loggers = {id(logger.parent): logger.parent for logger in loggers if logger.parent is not None}.values()

    def _add_streams(self):
        """What comes in is another each time; of where texts go, which object it is."""
        if "stdin" in self._own_names:
            self._give_up("sys.stdin")
        self.places.extend((vars(sys), name) for name in ("stdout", "stderr") if name in self._own_names and (id(vars(sys)), name) not in self._seen)

    def _add_environment(self, functions, asked):
        """Variables of the process, also such as are not set: those whose names stand beside `environ` or `getenv`, all where a name may be any."""
        if "argv" in asked:
            self._add(vars(sys), "argv", sys.argv, OBJECT_DEPTH)
        named = {name for function in functions for name in variables_in(function.__code__)}
        space = os.environ._data   # what all ways of reading come to
        if None in named or self._any_variable or not EXPANDING.isdisjoint(asked):
            return self._add(vars(os.environ), "_data", space, OBJECT_DEPTH)
        for name in named:
            key = os.environ.encodekey(name) if is_a(name, str) else name
            self._add(space, key, space.get(key), 0)

    def _add_items(self, container, depth):
        """Of a list or dict with tensors in it, which are the search's: the rest, each by itself."""
        if id(container) in self._seen:
            return
        self._seen.add(id(container))
        self._kept.append(container)
        if depth <= 0 or length_of(container) > ITEMS:
            return self._give_up(f"{name_of(type(container))} of {length_of(container)} items" if depth > 0 else f"containers nested more than {OBJECT_DEPTH} deep")
        for key, item in [*dict.items(container)] if is_a(container, dict) else [*enumerate(list.__iter__(container))]:
            if key is not None:
                self._add(container, key, item, depth - 1)

    def _add_function(self, function):
        """What it runs, and what it takes where nothing is given."""
        self._kept.append(function)
        for defaults in raw(function, None):
            left_out = not_compared(defaults)
            if left_out:
                self._give_up(left_out, function.__name__)
        self._add_place(function, None, raw(function, None), False)
        self._searched.add(id(vars(function)))
        self._add_space(vars(function), None, OBJECT_DEPTH)

    def _add_space(self, space, names, depth):
        self._seen.add(id(space))
        self._kept.append(space)
        packaged = id(space) in self._packaged
        besides = self._data.get(id(space), ())
        if id(space) not in self._searched:   # a library's object: where any name may be asked for, these still are
            known = self._asked
        else:
            known = self._names_of_packages if packaged or id(space) in self._read_by_packages else self._names
        for name in [*space] if names is None else names:
            if name in space and (name in known or name in besides) and name not in OWN and not is_own_method(space[name]):
                self._add(space, name, space[name], depth)
            elif names is not None and name not in space:   # a global that may come yet, also in front of a builtin
                self._add(space, name, None, 0)
                if name in vars(builtins) and is_a(vars(builtins)[name], (*COMPARED, *LISTS, types.FunctionType)):   # of the program's making
                    self._add(vars(builtins), name, vars(builtins)[name], OBJECT_DEPTH)

    def _add_class(self, kind):
        """Attributes of a class of the program's own, its methods among them, also those that Python finds by names of its own (`__len__`)."""
        space = own_space(kind)
        if space is None:
            return
        self._searched.add(id(space))
        if of_package(file_of(kind)):
            self._packaged.add(id(space))
        self._add_space(space, [name for name in space if not name.startswith("__")], OBJECT_DEPTH)
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
        unlike = (object(),) if self.unknown else ()   # two looks at what nobody can compare are never alike
        return tuple((name, frozen(content_of(container, name))) for container, name in self.places) + unlike


def spaces_shown(search):
    """Objects whose attributes code in C reads, where they are shown or compared: by a name that stands for one in the function's code, or is an attribute of anything met."""
    programs = [function for function in search.functions if of_program(source_of(function)) and not function.__code__.co_filename.startswith("<string")]   # which dataclasses write
    found, names = set(), frozenset().union(*(shown_or_compared(function.__code__) for function in programs))
    for function in programs if names else ():
        cells = zip(function.__code__.co_freevars, function.__closure__ or ())
        values = [*(function.__globals__.get(name) for name in names), *(cell_content(cell) for name, cell in cells if name in names)]
        found.update(id(value) for value in values if is_a(value, types.SimpleNamespace))
    for space, _ in search.spaces if names else ():
        found.update(id(space[name]) for name in names if is_a(space.get(name), types.SimpleNamespace))
    return found


def is_environment(value):
    """`from os import getenv as ask`, `ask = os.environ.get`"""
    found = value.__self__ if is_a(value, types.MethodType) else value
    return any(found is each for each in (os.environ, os.getenv, getattr(os, "environb", os.environ), getattr(os, "getenvb", os.getenv)))


def names_of_thread(local):
    """Attributes that this thread has."""
    return tuple(vars(local))


def loggers_named(functions):
    """Those whose names stand in the code, or that are called as a module is; and all that they hand messages to."""
    names = {text for function in functions for text in (*texts_in(function.__code__.co_consts), function.__globals__.get("__name__"))}
    known = logging.root.manager.loggerDict
    return [logging.root, *(known[name] for name in names if is_a(known.get(name), logging.Logger))]


def content_of(container, name):
    if name is None and is_a(container, types.FunctionType):
        return container.__code__, copied(container.__defaults__), copied(container.__kwdefaults__)
    return copied(raw(container, name))


def raw(container, name):
    if is_a(container, threading.local):
        return getattr(container, name, None)
    if name is not None:
        return stood_for(dict.get(container, name)) if is_a(container, dict) else item_of(container, name) if is_a(container, list) else slot_value(container, name)
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
    if depth and is_a(value, (*LISTS, tuple, *QUEUES)) and length_of(value) <= ITEMS:
        for item in items_of(value):
            if type(item) not in COMPARED:
                yield from held_in(item, depth - 1)


def copied(value, depth=OBJECT_DEPTH):
    """Containers as they are now: they are compared by what they hold, those of a class derived from Python's by which one it is, too. An array is the same object
    with the same bytes."""
    if type(value) in COMPARED:
        return value
    if is_memory(value):
        return value, bytes_of(value)
    if is_array_of_objects(value):
        return value, [copied(item, depth - 1) for item in value.flat] if depth else value
    if is_plain_set(value):
        return frozenset(value)
    if depth == 0 or not (is_a(value, (*LISTS, tuple)) or type(value) in QUEUES) or length_of(value) > ITEMS:
        return value
    if type(value) in QUEUES:
        held = value if any(is_a(item, HELD) for item in value) else [copied(item, depth - 1) for item in [*value]]
        return (value, held) if getattr(value, "maxlen", None) is not None and held is not value else held
    if is_a(value, dict):
        held = {key: item if type(item) in COMPARED else copied(item, depth - 1) for key, item in list(dict.items(value))}
        return held if type(value) is dict else (value, held)
    if is_a(value, list):
        held = [item if type(item) in COMPARED else copied(item, depth - 1) for item in list.__iter__(value)]
        return held if type(value) is list else (value, held)
    return tuple(copied(item, depth - 1) for item in value) if type(value) is tuple else value


def not_compared(value):
    """What of a value `copied` leaves out, or None."""
    left, met = ITEMS, set()

    def walk(value, depth):
        nonlocal left
        size = bytes_in(value)
        if size is not None:
            return f"{name_of(type(value))} of {size} bytes" if size > ARRAY_BYTES else None
        of_objects = is_array(value)   # the others are above
        if not (of_objects or is_a(value, (*LISTS, tuple, *QUEUES))) or id(value) in met:
            return None
        met.add(id(value))
        left -= value.size if of_objects else length_of(value)
        if left < 0:
            return f"{name_of(type(value))} that is one of several with more than {ITEMS} items" if depth < OBJECT_DEPTH else f"{name_of(type(value))} of {value.size if of_objects else length_of(value)} items"
        inner = [item for item in (value.flat if of_objects else values_in(value)) if type(item) not in COMPARED]
        if depth == 0:
            return f"containers nested more than {OBJECT_DEPTH} deep"
        return next(filter(None, (walk(item, depth - 1) for item in inner)), None)

    return walk(value, OBJECT_DEPTH)


def bytes_in(value):
    """How many a piece of memory has; None of anything else. Pieces of a `memoryview` with gaps nobody compares."""
    if is_array(value):
        return None if value.dtype.hasobject else value.nbytes
    if type(value) in MEMORY or is_of_c(value) or is_mapped(value):
        try:
            view = memoryview(value)
        except ValueError:   # released
            return None
        return view.nbytes if view.c_contiguous else ARRAY_BYTES + 1
    return None


def is_plain_set(value):
    """Comparing sets of such runs none of the program's code; and equal ones are the same, which `1` and `True`, or two zeros, are not."""
    if type(value) not in SETS or len(value) > ITEMS:
        return False
    kinds = {*map(type, value)}
    return len(kinds) <= 1 and kinds <= {*COMPARED} and not (float in kinds and 0.0 in value)


def bytes_of(value):
    return sys.modules["numpy"].ndarray.tobytes(value, "A") if is_array(value) else bytes(memoryview(value))   # as they lie there


def is_memory(value):
    size = bytes_in(value)
    return size is not None and size <= ARRAY_BYTES and (not is_array(value) or value.flags.forc)


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


def frozen(value, depth=2 * OBJECT_DEPTH):   # places hold containers of what was copied
    if type(value) is float:
        return float, value.hex()
    if type(value) in COMPARED:
        return type(value), repr(value) if type(value) is complex else value
    if is_plain_set(value):
        return frozenset(map(frozen, value))
    if depth and type(value) in (*LISTS, tuple) and len(value) <= ITEMS:
        items = items_of(value)
        kinds = set(map(type, items))
        if kinds <= ALIKE and len(kinds) == 1:
            return type(value), *kinds, array.array("d", items).tobytes() if float in kinds else (*items,)
        return type(value), tuple(frozen(item, depth - 1) for item in items)
    return id(value)


def items_of(container):
    """Of a dict keys and values by turns."""
    if is_a(container, dict):
        return tuple(item for pair in list(dict.items(container)) for item in pair)
    return tuple(values_in(container))


def own_space(kind):
    """The dict behind `vars` of a class of the program's own."""
    return space_of_class(kind) if is_own(kind) else None
