"""Builtins of Python that the program asks about a number by the object itself: `type(n)`. While a recording runs, the modules whose functions name one find ours
under that name, which does for everything else what the builtin does.
"""

import contextlib

from .names import globals_in
from .number_types import type_of, unions_ask_them
from .while_recording import STAND_INS, Absent, WhileRecording


OURS = {"type": type_of}
STAND_INS.update((id(ours), Absent) for ours in OURS.values())


def means_builtin(name, space):
    return name in OURS and space.get(name, OURS[name]) is OURS[name]


def builtins_named(functions):
    """(the names of a module, a name by which a function of it means such a builtin)."""
    found = [(function.__globals__, name) for function in functions for name in OURS if name in globals_in(function.__code__)]
    return [*{(id(space), name): (space, name) for space, name in found if means_builtin(name, space)}.values()]


def replaced_in(space, name):
    ours = OURS[name]

    def put():
        space.setdefault(name, ours)

    def take_back():
        if space.get(name) is ours:
            del space[name]

    return WhileRecording(put, take_back)


known = {}   # by the id of a module's names, and a name: (the names, what replaces it there)


@contextlib.contextmanager
def builtins_know_numbers(named):
    with contextlib.ExitStack() as held:
        held.enter_context(unions_ask_them())
        for space, name in named:
            if (id(space), name) not in known:
                known.setdefault((id(space), name), (space, replaced_in(space, name)))
            held.enter_context(known[id(space), name][1]())
        yield
