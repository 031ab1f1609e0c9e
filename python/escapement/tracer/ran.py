"""Which of the functions that a program can reach have run. A search that finds what nobody can compare, or more functions than are worth a search, is repeated for
these alone: what a recording read, the code read that ran while it was made, and as long as that is the same, the next call runs the same code. Code that a later
recording runs besides is a reason to search anew (jitted.py).
"""

import os
import threading
import types

from .homes import of_library, of_package, source_of
from .objects import is_a

WAKES = frozenset(("start", "notify", "notify_all"))   # in threading.py: another thread may go on, and what it runs nobody sees
HOME = os.path.dirname(os.__file__) + os.sep
WORKERS = HOME + "concurrent", HOME + "multiprocessing"


class Everything:
    """Nobody has looked."""
    bounded = True   # there may be any number of them

    def __contains__(self, function):
        return True


def last():
    """Runs at the end of what is watched: whether it was watched until then."""


def seen_whole(code):
    """Whether the code that has run, by its id, is all of it. Asked while it is watched."""
    last()
    return id(last.__code__) in code and not any(map(hands_on, [*code.values()]))


def hands_on(code):
    """Work, to another thread or process."""
    return code.co_filename.startswith(WORKERS) or code.co_filename == threading.__file__ and code.co_name in WAKES


class Ran:
    bounded = False

    def __init__(self, code):
        self._code = code   # by its id

    def __contains__(self, function):
        return id(function.__code__) in self._code

    def more(self, code):
        """With what has run besides, if any of that is no library's; else None."""
        new = {key: each for key, each in code.items() if key not in self._code}
        return None if all(of_library(each.co_filename) for each in new.values()) else Ran({**self._code, **new})


class Followed:
    """What a search goes on with that has left out functions of a kind (of packages or not): of that kind, what it has followed until then."""

    def __init__(self, functions, full):
        self._code, self._full = {id(function.__code__) for function in functions}, full

    def __contains__(self, function):
        return of_package(source_of(function)) not in self._full or id(function.__code__) in self._code


class Nearest:
    """Of more functions than a search follows, those that it has followed. What has run besides makes way for what has run."""

    def __init__(self, functions):
        self._code = {id(inner): inner for function in functions for inner in with_inner(function.__code__)}

    def more(self, code):
        return Ran(code) if Ran(self._code).more(code) else None


def with_inner(code):
    yield code
    for part in code.co_consts:
        if is_a(part, types.CodeType):
            yield from with_inner(part)
