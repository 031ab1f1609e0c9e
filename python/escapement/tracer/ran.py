"""Which of the functions that a program can reach have run. A search that finds what nobody can compare, or more functions than are worth a search, is repeated for
these alone: what a recording read, the code read that ran while it was made, and as long as that is the same, the next call runs the same code. Code that a later
recording runs besides is a reason to search anew (jitted.py). So is code that no search has met: the functions that it belongs to are asked of Python's collector.
"""

import gc
import os
import threading
import types
import weakref

from ..limits import OBJECTS_OF_CLASS
from .homes import of_library, of_package, source_of
from .names import with_inner
from .objects import is_a, space_of_class

WAKES = frozenset(("start", "notify", "notify_all"))   # in threading.py: another thread may go on, and what it runs nobody sees
HOME = os.path.dirname(os.__file__) + os.sep
WORKERS = HOME + "concurrent", HOME + "multiprocessing"
OF_NOBODY = weakref.WeakValueDictionary()   # id -> code that no function has, or only one of a library; code with other names may be equal


class Everything:
    """Nobody has looked. `beside`: functions that have run and that no search has met."""
    bounded = True   # there may be any number of functions

    def __init__(self, beside=()):
        self.beside = beside

    def __contains__(self, function):
        return True

    def with_beside(self, functions):
        return Everything((*self.beside, *functions))


class Ran:
    bounded = False

    def __init__(self, code, beside=()):
        self.code, self.beside = code, beside   # by its id

    def __contains__(self, function):
        return id(function.__code__) in self.code

    def holds(self, code):
        return code.keys() <= self.code.keys()

    def with_beside(self, functions):
        return Ran(self.code, (*self.beside, *functions))

    def with_code(self, code):
        return Ran({**self.code, **code}, self.beside)


class Followed:
    """What a search goes on with that has left out functions of a kind (of packages or not): of that kind, what it has followed until then."""

    def __init__(self, functions, full):
        self._code, self._full = {id(function.__code__) for function in functions}, full

    def __contains__(self, function):
        return of_package(source_of(function)) not in self._full or id(function.__code__) in self._code


class Searched:
    """The code that a search has read."""

    def __init__(self, ran, functions, left_out):
        self._ran, self.left_out = ran, left_out   # whether there were more functions
        self._code = {id(code): code for function in functions for code in with_inner(function.__code__)}

    def instead(self, code, whole=True):
        """(What the next search is to follow,), since this code has run, and perhaps other code that nobody saw; (None,) where nobody knows; None if it has all been read."""
        if not whole and (self.left_out or is_a(self._ran, Ran)):
            return (None,)
        missed = {key: each for key, each in code.items() if key not in self._code and not is_librarys(each)}
        if missed and self.left_out:
            return (Ran(code, self._ran.beside),)
        if is_a(self._ran, Ran) and not self._ran.holds(missed):
            return (self._ran.with_code(code),)
        functions = functions_of(missed)
        if functions is None:
            return (None,)
        new = [each for each in functions if each not in self._ran.beside]
        return (self._ran.with_beside(new),) if new else None

    def unmet(self):
        """What is to be followed besides, of the code that has run already; or None."""
        more = self.instead(self._ran.code) if is_a(self._ran, Ran) else None
        return more and more[0]


def is_librarys(code):
    """Whose state is not the program's. A named tuple is made by a line that Python's library writes; a file that is imported has its functions found by their names."""
    return of_library(code.co_filename) or code.co_name == "<module>" or "_tuple_new" in code.co_names and code.co_filename == "<string>"


def functions_of(codes):
    """That have this code, by its id, wherever they are held, and the owners of these. None, where nobody knows: some may stand where the collector does not look
    (`gc.freeze`), or there are too many owners."""
    codes = {key: code for key, code in codes.items() if key not in OF_NOBODY}
    holders = gc.get_referrers(*codes.values()) if codes else ()
    found = [each for each in holders if is_a(each, types.FunctionType) and id(each.__code__) in codes and not of_library(source_of(each))]
    known = {id(each.__code__) for each in found}
    nobodys = {key: code for key, code in codes.items() if key not in known}
    if nobodys and gc.get_freeze_count():
        return None
    OF_NOBODY.update(nobodys)
    owners = owners_of(found) if found else []
    return None if owners is None else found + owners


def owners_of(functions):
    """Bound methods, and the objects whose methods these are: they have state. None: there are too many."""
    known, holders = {id(function) for function in functions}, gc.get_referrers(*functions)
    methods = [each for each in holders if is_a(each, types.MethodType) and id(each.__func__) in known]
    spaces = [each for each in holders if type(each) is dict] if any(map(is_in_class, functions)) else []
    ids = set(map(id, spaces))
    kinds = {part for kind in gc.get_referrers(*spaces) if is_a(kind, type) and id(space_of_class(kind)) in ids for part in with_derived(kind)} if spaces else ()
    objects = [each for each in gc.get_referrers(*kinds) if type(each) in kinds] if kinds else []
    return methods + objects if len(objects) <= OBJECTS_OF_CLASS else None


def is_in_class(function):
    home, _, _ = function.__qualname__.rpartition(".")
    return bool(home) and not home.endswith("<locals>")


def with_derived(kind):
    yield kind
    for each in type.__subclasses__(kind):
        yield from with_derived(each)


def last():
    """Runs at the end of what is watched: whether it was watched until then."""


def seen_whole(code):
    """Whether the code that has run, by its id, is all of it. Asked while it is watched."""
    last()
    return id(last.__code__) in code and not any(map(hands_on, [*code.values()]))


def hands_on(code):
    """Work, to another thread or process."""
    return code.co_filename.startswith(WORKERS) or code.co_filename == threading.__file__ and code.co_name in WAKES
