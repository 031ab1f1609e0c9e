"""Whether the lists and dicts among the arguments are others than those that the function finds elsewhere: of one that is both, the function would get a copy.

What is elsewhere is compared by what it holds, so that equal ones may take each other's places while a version serves. Which ones lie there now is therefore
asked anew, where arguments hold any: by the core, which is given the state with the identities of such containers.
"""

import collections
import types

from ..core import core
from ..limits import ITEMS, OBJECT_DEPTH
from .objects import is_a, length_of, values_in
from .plain import COMPARED, HELD, LISTS, QUEUES, copied, is_array_of_objects, raw

CHANGEABLE = (*LISTS, collections.deque)


class Lying:
    """The containers that lie in these places: `ids` are theirs while `same()`, which the core tells."""

    def __init__(self, places):
        self.ids, rows = set(), []
        for place in places:
            found = set()
            walk(raw(*place), found, 2 * OBJECT_DEPTH)
            self.ids |= found
            rows += [(*place, content_of(*place))] if found else []   # where there are none, none comes unseen
        self.same = core().Contents([], rows).same   # keeps them, so that no other has such an id


def walk(value, found, depth):
    if type(value) in COMPARED or depth == 0 or id(value) in found:
        return
    if is_a(value, CHANGEABLE):
        found.add(id(value))
    if is_array_of_objects(value) or is_a(value, (*LISTS, tuple, *QUEUES)) and length_of(value) <= ITEMS:
        for item in value.flat if is_array_of_objects(value) else [*values_in(value)]:
            walk(item, found, depth - 1)


def values_apart(places):
    """As Plain.values(), for a Contents object that tells containers apart, too."""
    return [(container, name, content_of(container, name)) for container, name in places]


def content_of(container, name):
    if name is None and is_a(container, types.FunctionType):
        return container.__code__, itself(container.__defaults__), itself(container.__kwdefaults__)
    return itself(raw(container, name))


def itself(value, depth=OBJECT_DEPTH):
    """As `copied`; of a container also which one it is."""
    known = is_a(value, LISTS) or type(value) in (tuple, collections.deque)
    if depth == 0 or not known or length_of(value) > ITEMS:
        return copied(value, depth)
    if type(value) is collections.deque and any(is_a(item, HELD) for item in value):
        return value
    if is_a(value, dict):
        return value, {key: itself(item, depth - 1) for key, item in [*dict.items(value)]}
    items = [itself(item, depth - 1) for item in [*values_in(value)]]
    return tuple(items) if type(value) is tuple else (value, items)


def holds_containers(kinds):
    """Of the arguments of a row (`kind_of`)."""
    return any(type(kind) is list and (kind[0] in LISTS or holds_containers(kind[2:])) for kind in kinds)


class Apart:
    """A table's state, asked in Python: while it is current and nothing but what was known lies elsewhere."""

    def __init__(self, table, known):
        self._table, self._known = table, known

    def current(self):
        return self._table.current() and self._table.lying().ids <= self._known
