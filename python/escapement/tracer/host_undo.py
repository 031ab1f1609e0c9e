"""What a recording changed in the objects that a function reaches, put back before the function runs again because only symbols made it fail: else a
call that appends once would append twice. Seen is what Watch.state() sees, and what lies in containers there."""

import collections

from ..limits import COMPARED, OBJECT_DEPTH
from .objects import is_a, own_kind
from .search import cell_content, slot_value

KINDS = (collections.OrderedDict, dict, list, set, collections.deque, bytearray, tuple)
FLAT = (set, bytearray)   # hold nothing that could be changed
MISSING = object()


class HostUndo:
    """Made before the recording, of a watch's parts."""

    def __init__(self, spaces, kinds, slotted, cells, held=()):
        """`spaces`: (dict, names or None for all). `held`: containers that stand in none of them (defaults, what partial functions are given)."""
        self._seen, self._copies, self._left = set(), [], COMPARED
        self._names = [(space, name, space.get(name, MISSING)) for space, names in spaces if names is not None for name in names]
        self._kinds = [(kind, {**vars(kind)}) for kind in kinds]
        self._slots = [(owner, name, slot_value(owner, name)) for owner, names in slotted for name in names]
        self._cells = [(cell, cell_content(cell)) for cell in cells]
        wholes = (space for space, names in spaces if names is None)
        values = (held[-1] for held in (*self._names, *self._slots, *self._cells))
        of_kinds = (value for _, space in self._kinds for value in space.values())
        for value in (*wholes, *values, *of_kinds, *held):
            self._copy(value, 2 * OBJECT_DEPTH)

    def _copy(self, value, depth):
        if depth == 0 or id(value) in self._seen or not is_a(value, KINDS) or (count := base_of(value).__len__(value)) > self._left:
            return
        self._seen.add(id(value))
        self._left -= count
        if is_a(value, tuple):
            inside = tuple.__iter__(value)
        else:
            items = items_of(value)
            self._copies.append((value, items))
            inside = () if is_a(value, FLAT) else [item for _, item in items] if is_a(value, dict) else items
        for item in inside:
            self._copy(item, depth - 1)

    def restore(self):
        for space, name, value in self._names:
            if value is MISSING:
                dict.pop(space, name, None)
            elif space.get(name, MISSING) is not value:
                dict.__setitem__(space, name, value)
        for kind, before in self._kinds:
            restore_class(kind, before)
        for owner, name, value in self._slots:
            if slot_value(owner, name) is not value:
                object.__setattr__(owner, name, value)
        for cell, value in self._cells:
            if cell_content(cell) is not value:
                cell.cell_contents = value
        for container, items in self._copies:
            restore_container(container, items)


def base_of(container):
    """Whose methods are used: not those of a class of the program's own."""
    return bytearray if is_a(container, bytearray) else own_kind(container)


def items_of(container):
    base = base_of(container)
    return [*base.items(container)] if is_a(container, dict) else [*base.__iter__(container)]


def restore_class(kind, before):
    for name in [name for name in vars(kind) if name not in before]:
        delattr(kind, name)
    for name, value in before.items():
        if vars(kind).get(name, MISSING) is not value:
            setattr(kind, name, value)


def restore_container(container, items):
    if is_a(container, dict):
        return restore_dict(container, items)
    base, now = base_of(container), items_of(container)
    if len(now) == len(items) and all(a is b for a, b in zip(now, items)):
        return
    base.clear(container)
    (base.update if base is set else base.extend)(container, items)


def restore_dict(space, items):
    """Little by little, since it may be a module's: in the order in which it was."""
    base, keys = base_of(space), {key for key, _ in items}
    for key in [key for key in base.keys(space) if key not in keys]:
        base.__delitem__(space, key)
    if [*base.keys(space)] != [key for key, _ in items]:
        base.clear(space)
    for key, value in items:
        if base.get(space, key, MISSING) is not value:
            base.__setitem__(space, key, value)
