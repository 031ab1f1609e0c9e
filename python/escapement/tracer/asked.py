"""Which names a program asks for: those in the code of its functions, and in such methods of the classes of its objects as somebody names. What nobody asks for
by name is not watched (`plain.py`).
"""

import functools
import types

from .homes import of_library, of_package, of_program, source_of
from .instructions import WITH_NAMES, has_any, names_at
from .names import WRITING_TEXTS, asks_by_variable, globals_computed, globals_in, parts_of_name, reads_all, texts_in
from .objects import is_a
from .ran import Everything
from .search import space_of

NO_NAMES = ("builtins", "torch.nn.modules.module", "torch._tensor")
NOT_CALLED = frozenset(("__init__", "__repr__", "__setstate__", "__getstate__"))   # unless somebody makes such objects, writes them into texts, or copies them
MATCHING, STORING = frozenset(("MATCH_CLASS",)), frozenset(("STORE_ATTR",))   # instructions
COPYING, FORMATTING = frozenset(("copy", "deepcopy")), frozenset(("repr", "str", "format"))


def classes_of(search):
    found = (*map(type, (*search.modules, *search.objects)), *search.kinds)
    kinds = {kind for first in found for kind in first.__mro__}
    return sorted((kind for kind in kinds if kind.__module__ not in NO_NAMES), key=lambda kind: (str(kind.__module__), kind.__qualname__))


def methods_named(search):
    """Of the program's own classes."""
    classes = classes_of(search)
    return [function for function in names_read(search.functions, classes, search.named, search.made, search.counts)[1] if not of_library(source_of(function))]


def names_asked(search):
    """By the program and by packages."""
    names, methods = names_read(search.functions, classes_of(search), search.named, search.made, search.counts)
    return All() if may_be_anything(search, methods) else names


def may_be_anything(search, methods):
    return search.computes or any(computes_names(function.__code__) for function in (*search.functions, *methods) if of_program(source_of(function)))


def names_read(functions, classes, more=(), made=(), ran=Everything()):
    """By these functions, by those of the classes' methods that somebody names, and by functions beside them that these name; and these methods. Methods of
    packages name something once they are among the functions. `ran`: functions that nobody has run do not count (ran.py)."""
    methods = {(kind, name, function): function for kind in classes for name, function in methods_of(kind) if function in ran}
    names, waiting, met, called = {"forward", "__call__", *more}, list(functions), set(), []
    searched, again = {function.__code__ for function in functions}, Again(classes)
    while True:
        if not waiting:
            waiting = [methods.pop(key) for key in [*methods] if (key[0] in made or again.any if key[1] == "__init__" else key[1] in names or is_called_by_python(key[1]))]
            called.extend(waiting)
        if not waiting:
            return names, called
        function = waiting.pop()
        if function.__code__ not in met and (function.__code__ in searched or not of_package(source_of(function))):
            met.add(function.__code__)
            found = again.names_of(function.__code__)
            names |= found | called_by(function.__code__)
            if matches_classes(function.__code__):
                names.update(name for kind in classes for name in vars(kind).get("__match_args__", ()))
            waiting.extend(other for other in beside(function, found) if other in ran)


def is_called_by_python(name):
    return name.startswith("__") and name not in NOT_CALLED


class Again:
    """Whether `__init__` runs for new objects only. What it gives these is nobody's state; what it gives old ones is."""

    def __init__(self, classes):
        self._codes = {function.__code__ for kind in classes if may_give_old(kind) for part in kind.__mro__ for name, function in methods_of(part) if name == "__init__"}
        self._left_out = []
        self.any = False   # some code calls it like another method

    def names_of(self, code):
        found = names_of(code)
        if code.co_name != "__init__":
            if "__init__" in found and not self.any:
                self.any = True
                return found.union(*self._left_out)
            return found
        if self.any or code in self._codes:
            return found
        self._left_out.append(found)
        return loaded_by(code)


@functools.lru_cache(maxsize=4096)
def may_give_old(kind):
    """A call of the class: it has a `__new__` of the program's own (a singleton), or its metaclass says what a call is."""
    makers = *(vars(part).get("__new__") for part in kind.__mro__), *(vars(part).get("__call__") for part in type(kind).__mro__)
    found = (maker.__func__ if is_a(maker, staticmethod) else maker for maker in makers)
    return any(is_a(maker, types.FunctionType) and not of_library(source_of(maker)) and not is_of_tuples(maker) for maker in found)


def is_of_tuples(function):
    """Named tuples are made by a line of the library's own."""
    return "_tuple_new" in function.__code__.co_names


@functools.lru_cache(maxsize=16384)
def loaded_by(code):
    """What a new object is given is nobody's state."""
    loaded = {*code.co_varnames, *code.co_cellvars, *code.co_freevars, *code.co_consts, *names_at(code, WITH_NAMES - STORING)}
    return names_of(code) - ({*names_at(code, STORING)} - loaded)


@functools.lru_cache(maxsize=16384)
def matches_classes(code):
    return has_any(code, MATCHING)


@functools.lru_cache(maxsize=16384)
def called_by(code):
    """Methods that Python calls by names of its own."""
    copies, formats = not COPYING.isdisjoint(code.co_names), not FORMATTING.isdisjoint(code.co_names)
    formats = formats or has_any(code, WRITING_TEXTS)
    return frozenset(("__getstate__", "__setstate__") if copies else ()) | frozenset(("__repr__",) if formats else ())


def beside(function, names):
    """Functions of the same file."""
    known = map(function.__globals__.get, names)
    return [other for other in known if is_a(other, types.FunctionType) and other.__globals__ is function.__globals__]


def methods_of(kind):
    for name, value in list(vars(kind).items()):
        for function in functions_of(value):
            for each in with_wrapped(function):
                yield name, each


@functools.lru_cache(maxsize=4096)
def names_in_class(kind):
    """In all of its methods."""
    return frozenset().union(*(names_of(function.__code__) for _, function in methods_of(kind)))


def with_wrapped(function):
    """And what it decorates (`@torch.no_grad()`, `@contextlib.contextmanager`)."""
    met = set()
    while is_a(function, types.FunctionType) and id(function) not in met:
        met.add(id(function))
        yield function
        function = vars(function).get("__wrapped__")


def functions_of(member):
    """Behind a member of a class; nothing of the program's is asked."""
    if is_a(member, (staticmethod, classmethod)):
        return (member.__func__,)
    if is_a(member, property):
        return member.fget, member.fset, member.fdel
    if is_a(member, functools.singledispatchmethod):
        return (member.func,)
    return (space_of(member) or {}).get("func", member),   # functools.partialmethod and the like


def names_of_own(functions):
    """In the program's own code."""
    return frozenset().union(*(names_of(function.__code__) for function in functions if of_program(source_of(function))))


class All:
    """Whatever name is asked for."""

    def __contains__(self, name):
        return True


@functools.lru_cache(maxsize=16384)
def computes_names(code):
    """Attributes are read all together, or by names that are put together."""
    names, inner = frozenset(code.co_names), [item for item in code.co_consts if is_a(item, types.CodeType)]
    return reads_all(names) or "asdict" in names or "dir" in globals_in(code) or globals_computed(code) is None or asks_by_variable(code) or any(map(computes_names, inner))


@functools.lru_cache(maxsize=16384)
def names_of(code):
    """Globals, attributes, and what stands in texts (`getattr(self, "scale")`, `eval("scale + 1")`)."""
    found = {*code.co_names, *(globals_computed(code) or ())}
    found.update(part for text in texts_in(code.co_consts) for part in parts_of_name(text))
    return found.union(*(names_of(item) for item in code.co_consts if is_a(item, types.CodeType)))
