"""What a recording that is over has left in the program's objects: symbols and recorded tensors, replaced by what they stand for wherever Python's collector
finds them. A symbol is of no use to code that wants an int of C, and a recorded tensor is not the object that the caller gave.

In lists, dicts, sets, deques, attributes, closures, defaults and exceptions this is done in place; tuples, sizes, slices, frozensets and bound methods are made
anew, and what holds these holds the new ones. So it is with copies of the caller's containers that the function has put somewhere. Out of reach is what
generators, `map` and other iterators of C hold.
"""

import collections
import contextlib
import functools
import gc
import inspect
import itertools
import sys
import types

import torch

from ..limits import AFTERMATH, OBJECT_DEPTH
from ..recording import symbols
from ..recording.arithmetic import NUMBERS, value_of
from .cached_calls import KIND
from .objects import counts, held_elsewhere, is_a
from .results import is_recorded
from .search import space_of

REMADE = (tuple, frozenset, slice, types.MethodType)
IN_PLACE = (list, dict, set, collections.deque, types.CellType, types.FunctionType, BaseException, functools.partial)
NOT_ENTERED = (torch.Tensor, types.ModuleType, type)
FEW = 64
ON_HEAP = 1 << 9   # of a type's flags: made by a class statement, or as one
OF_CLASSES = frozenset(("__module__", "__doc__"))   # are in every class's own namespace


class Instead:
    """Objects, and what is put in the place of each."""

    def __init__(self, pairs):
        self.old, self._new, self._places = [], [], {}
        for old, new in pairs:
            self.add(old, new)

    def add(self, old, new):
        self._places[id(old)] = len(self.old)
        self.old.append(old)
        self._new.append(new)

    def __call__(self, value):
        place = self._places.get(id(value))
        return value if place is None else self._new[place]

    def concerns(self, values):
        return any(id(value) in self._places for value in values)


def put_in_order(pairs=(), result=None, ours=(), error=None):
    """After a recording of this thread: `pairs` of (recorded tensor, what it stands for), and all symbols. The result, which may be a new one.
    `ours`: lists and tuples of the caller's that hold what is replaced, and stay as they are. `error`: what the recording ended by."""
    instead = Instead([*pairs, *((number, value_of(number.node)) for number in beyond_frames(symbols.left_over(), error))])
    if not held_elsewhere([ours, *ours, pairs, *pairs], instead.old):   # looking for who does takes the collector milliseconds
        return instead(result)
    wave = [*instead.old]
    apart = {id(instead.old), id(ours), *map(id, ours)}
    for _ in range(2 * OBJECT_DEPTH if wave else 0):
        made = []
        for holder in holders_of(wave):
            if holder is not wave and id(holder) not in apart and not str(type(holder).__module__).startswith("escapement"):
                replace_in(holder, instead, made)
        wave = made
        apart.add(id(made))
        if not made:
            break
    return instead(result)


def beyond_frames(numbers, error):
    """Those that more than the frames hold that an error came through, which is usual, and looking for others takes the collector milliseconds."""
    held = collections.Counter(id(value) for frame in frames_of(error) for value in gc.get_referents(frame))
    return [number for number, count in zip(numbers, counts(numbers)) if count - 1 > held[id(number)]]   # 1: `numbers`


def frames_of(error):
    """That the error came through, and those that it was raised for."""
    frames, known = {}, set()
    while error is not None and id(error) not in known:
        known.add(id(error))
        trace = error.__traceback__
        while trace is not None:
            frames[id(trace.tb_frame)] = trace.tb_frame
            trace = trace.tb_next
        error = error.__cause__ or error.__context__
    return frames.values()


def holders_of(values):
    """The collector compares each reference that there is with each of the values: of many, sets are quicker."""
    frozen = gc.get_freeze_count()
    if len(values) <= FEW and not frozen:
        return gc.get_referrers(*values)
    wanted = {*map(id, values)}
    return [holder for holder in (reached() if frozen else gc.get_objects()) if not wanted.isdisjoint(map(id, gc.get_referents(holder)))]


def reached():
    """All objects that a program can reach. Of what is frozen (`gc.freeze`) the collector tells nothing."""
    found, rest = {}, [*gc.get_objects(), *sys.modules.values()]
    for frame in sys._current_frames().values():
        while frame is not None:
            rest += frame.f_locals.values()
            frame = frame.f_back
    known = {id(found), id(rest)}
    while rest:
        part = rest.pop()
        if id(part) not in known and gc.is_tracked(part):
            known.add(id(part))
            found[id(part)] = part
            rest += gc.get_referents(part)
    return found.values()


def replace_in(holder, instead, made):
    if is_a(holder, REMADE):
        now = remade(holder, instead)
        if now is not None:
            instead.add(holder, now)
            made.append(holder)
    elif is_a(holder, list):
        for at, item in enumerate([*list.__iter__(holder)]):
            if instead(item) is not item:
                list.__setitem__(holder, at, instead(item))
    elif is_a(holder, dict):
        in_dict(holder, instead)
    elif is_a(holder, set):
        for item in [item for item in set.__iter__(holder) if instead(item) is not item]:
            set.discard(holder, item)
            set.add(holder, instead(item))
    elif is_a(holder, collections.deque):
        for at, item in enumerate([*collections.deque.__iter__(holder)]):
            if instead(item) is not item:
                collections.deque.__setitem__(holder, at, instead(item))
    elif type(holder) is KIND:   # whose entries nobody can change, or drop one by one
        holder.cache_clear()
    if not is_a(holder, types.FrameType):
        in_attributes(holder, instead)


def in_dict(holder, instead):
    base = collections.OrderedDict if is_a(holder, collections.OrderedDict) else dict
    items = [*base.items(holder)]
    if instead.concerns(key for key, _ in items):   # in the order in which they were put there
        base.clear(holder)
        for key, value in items:
            base.__setitem__(holder, instead(key), instead(value))
        return
    owner = class_of(holder)
    for key, value in items:
        if instead(value) is not value:
            base.__setitem__(holder, key, instead(value)) if owner is None else setattr(owner, key, instead(value))


def class_of(space):
    """The class whose namespace a dict is: what changes there must be told to Python."""
    if not OF_CLASSES <= space.keys():
        return None
    return next((kind for kind in gc.get_referrers(space) if isinstance(kind, type)), None)


def in_attributes(holder, instead):
    """Of cells, functions, exceptions, and objects of classes, which may be containers as well."""
    if is_a(holder, types.CellType):
        holder.cell_contents = instead(holder.cell_contents)
    elif is_a(holder, types.FunctionType):
        holder.__defaults__ = instead(holder.__defaults__)
    elif type(holder) is functools.partial:
        function, given, named, space = holder.__reduce__()[2]
        holder.__setstate__((instead(function), instead(given), instead(named), space))
    elif is_a(holder, BaseException):
        BaseException.args.__set__(holder, instead(BaseException.args.__get__(holder)))
    if type(holder).__flags__ & ON_HEAP and not is_a(holder, type):
        in_slots(holder, instead)
        space = space_of(holder)
        if type(space) is dict:
            in_dict(space, instead)


def in_slots(holder, instead):
    for member, value in slots_with_values(holder):
        if instead(value) is not value:
            with contextlib.suppress(AttributeError, TypeError):   # read only
                member.__set__(holder, instead(value))


def slots_with_values(holder):
    for name, member in itertools.chain.from_iterable(vars(kind).items() for kind in type(holder).__mro__):
        if isinstance(member, types.MemberDescriptorType) and name not in ("__dict__", "__weakref__"):
            with contextlib.suppress(AttributeError, TypeError):   # nothing there
                yield member, member.__get__(holder)


def remade(holder, instead):
    """None of a kind whose making is its own."""
    kind = type(holder)
    if kind is slice:
        return slice(instead(holder.start), instead(holder.stop), instead(holder.step))
    if kind is types.MethodType:
        return kind(instead(holder.__func__), instead(holder.__self__))
    items = [instead(item) for item in (frozenset if kind is frozenset else tuple).__iter__(holder)]
    if kind in (tuple, frozenset, torch.Size) or hasattr(kind, "n_sequence_fields"):
        return kind(items)
    if is_call_of_mock(kind):
        now = tuple.__new__(kind, items)
        vars(now).update(vars(holder))
        return now
    return tuple.__new__(kind, items) if hasattr(kind, "_fields") and kind.__bases__ == (tuple,) else None


def is_call_of_mock(kind):
    return kind.__module__ == "unittest.mock" and kind.__name__ == "_Call"


# --- how a run ended

def hand_over(ended, error, originals, leaves):
    """The result, as the caller knows it."""
    result = vars(error).get("result")   # whatever a class of the program's says of such an attribute
    recorded = recorded_in(result)[0]
    if ended is None:
        return put_in_order((), None, (recorded,), error)
    result = ended.hand_over(originals, leaves, result)
    pairs = [*((tensor, ended.real(tensor)) for tensor in recorded), *ended.put_away(originals, frames_of(error))]
    return put_in_order(pairs, result, (recorded, pairs, *pairs, *ended.own()), error)


def tensors_of(given, leaves):
    """(what stood for a tensor in a recording, the caller's tensor)"""
    return [(ours, leaf) for ours, leaf in zip(given, leaves) if is_a(ours, torch.Tensor)]


def close_unstarted(error):
    """Coroutines in a result that nobody gets, which Python would say were never awaited."""
    result = vars(error).get("result")
    for found in result if type(result) in (list, tuple) else [result]:
        if type(found) is types.CoroutineType and inspect.getcoroutinestate(found) == inspect.CORO_CREATED:
            found.close()


# --- what a result holds

def recorded_in(result):
    """(recorded tensors, whether put_in_order reaches all that is recorded) of all that a result refers to."""
    tensors, seen, todo = [], {id(result)}, [result]
    held_by = collections.defaultdict(list)   # id of what is made anew -> its holders, which would have to take the new one
    renewed = {}                              # of these, those that something recorded is in, also deeper
    while todo and len(seen) <= AFTERMATH:
        holder = todo.pop()
        for part in referred(holder):
            if is_a(part, (torch.Tensor, *NUMBERS)) and is_recorded(part):   # each of its holders counts
                if not can_replace_in(holder, part):
                    return tensors, False
                tensors.extend([part] if is_a(part, torch.Tensor) else ())
                if is_a(holder, REMADE):
                    renewed[id(holder)] = holder
                continue
            if is_a(part, REMADE):
                held_by[id(part)].append(holder)
            if id(part) not in seen:
                seen.add(id(part))
                todo.append(part)
    return tensors, not todo and can_all_be_renewed(renewed, held_by)


def can_all_be_renewed(renewed, held_by):
    rest = [*renewed.values()]
    while rest:
        part = rest.pop()
        for holder in held_by[id(part)]:
            if not can_replace_in(holder, part):
                return False
            if is_a(holder, REMADE) and id(holder) not in renewed:
                renewed[id(holder)] = holder
                rest.append(holder)
    return True


def can_replace_in(holder, part):
    """What replace_in() does."""
    kind = type(holder)
    if is_a(holder, REMADE):
        return kind in (tuple, frozenset, slice, types.MethodType, torch.Size) or hasattr(kind, "n_sequence_fields") or is_call_of_mock(kind) or hasattr(kind, "_fields") and kind.__bases__ == (tuple,)
    return is_a(holder, IN_PLACE) or bool(kind.__flags__ & ON_HEAP) and is_in_attributes(holder, part)


def is_in_attributes(holder, part):
    """Not in what a class that is written in C holds beside."""
    space = space_of(holder)
    return part is space or type(space) is dict and any(value is part for value in space.values()) or any(value is part for _, value in slots_with_values(holder))


def referred(value):
    if is_a(value, NOT_ENTERED):
        return ()
    if is_a(value, types.FunctionType):   # not its globals
        return (*(value.__closure__ or ()), *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), vars(value))
    if type(value).__module__ == "numpy" and hasattr(value, "flat") and value.dtype.hasobject:   # which the collector does not know
        return [*value.flat]
    return gc.get_referents(value)
