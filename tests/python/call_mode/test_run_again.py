"""A function that only symbolic numbers made fail runs again: what it had done to objects and tensors by then is done once. EFFECTS x MEETINGS."""

import collections
import contextlib
import datetime
import decimal
import functools

import pytest
import torch
from answered import outcome

import escapement

pytestmark = pytest.mark.usefixtures("fresh")
SIZES = (3, 3, 1, 0, 5, 3, 4)


class Slotted:
    __slots__ = ("count", "other")


class OfClass:
    count = 0


COUNT = 0


class State:
    def __init__(self):
        self.count, self.log, self.table, self.queue, self.seen = 0, [], {"a": 1}, collections.deque(maxlen=3), {0}
        self.nested, self.pair, self.bytes, self.ordered = {"a": [1]}, ([], {}), bytearray(b"a"), collections.OrderedDict(a=1, b=2)
        self.slots, self.kind, self.tensor = Slotted(), type("Own", (OfClass,), {}), torch.zeros(2)
        self.slots.count = 0

    def values(self):
        slots = [(name, getattr(self.slots, name, None)) for name in Slotted.__slots__]
        here = {name: value for name, value in vars(self).items() if name not in ("slots", "kind", "tensor")}
        return here, slots, self.kind.count, vars(self.kind).get("fresh"), self.tensor.tolist(), COUNT


def bound_globally(s, x):
    global COUNT
    COUNT += 1


def kept(s, x):
    s.last = len(s.log)


def dropped(s, x):
    s.table.pop("a", None)
    s.table["b"] = s.table["a"] = len(s.table)


def of_class(s, x):
    s.kind.count += 1
    s.kind.fresh = 1


EFFECTS = {
    "attribute": lambda s, x: setattr(s, "count", s.count + 1), "list": lambda s, x: s.log.append(1), "list inserted": lambda s, x: s.log.insert(0, len(s.log)),
    "dict": lambda s, x: s.table.__setitem__(len(s.table), 1), "dict dropped": dropped, "queue": lambda s, x: s.queue.append(len(s.log)),
    "set": lambda s, x: s.seen.add(len(s.seen)), "nested": lambda s, x: s.nested["a"].append(1), "pair": lambda s, x: s.pair[0].append(s.pair[1].setdefault(1, 2)),
    "bytes": lambda s, x: s.bytes.extend(b"b"), "ordered": lambda s, x: s.ordered.move_to_end([*s.ordered][0]), "slot": lambda s, x: setattr(s.slots, "count", s.slots.count + 1),
    "class": of_class, "new attribute": kept, "global": bound_globally, "tensor": lambda s, x: s.tensor.add_(1), "argument": lambda s, x: x.mul_(2),
    "view": lambda s, x: x[1:].mul_(2), "swapped": lambda s, x: setattr(s, "log", [*s.log, 1]), "size kept": lambda s, x: s.log.append(x.shape[0]),
    "both": lambda s, x: (s.log.append(1), x.mul_(2), s.tensor.sub_(1)), "number drawn": lambda s, x: s.log.append(torch.rand(2).add_(1).shape[0]),
}
MEETINGS = {
    "decimal": lambda x: float(decimal.Decimal(x.shape[0])), "delta": lambda x: datetime.timedelta(seconds=x.shape[0]).total_seconds(),
    "caught": lambda x: caught(x),
}


def caught(x):
    try:
        return float(decimal.Decimal(x.shape[0]))
    except TypeError:
        return -1.0


@pytest.mark.parametrize("meeting", MEETINGS)
@pytest.mark.parametrize("effect", EFFECTS)
def test_effects_happen_once(effect, meeting):
    global COUNT

    def made():
        state = State()

        def program(x):
            EFFECTS[effect](state, x)
            return x * MEETINGS[meeting](x)
        return state, program

    (theirs, eager), (ours, program) = made(), made()
    jitted = escapement.jit(program)
    with torch.no_grad():
        for n in SIZES:
            a, b, before = torch.ones(n), torch.ones(n), COUNT
            wanted, left = eager(a), theirs.values()
            COUNT = before
            assert torch.equal(wanted, jitted(b)) and torch.equal(a, b) and a._version == b._version, n
            assert left == ours.values(), n


def raises_behind_a_branch(x):
    x.add_(1)
    y = x * (2 if x.max() > 2 else 3)
    x[2:].select(0, 0)   # where there are so many
    return y


def adds_behind_a_count(x):
    x.add_(7)
    len(x.nonzero())
    x[1:] += x[:-1]   # the same memory: torch raises
    return x


@pytest.mark.parametrize("program", [raises_behind_a_branch, adds_behind_a_count])
def test_a_call_that_left_compiled_code_does_not_begin_anew(program):
    """What had run before it left is not in the recording that goes on."""
    jitted = escapement.jit(program)
    for n in (0, 3, 1, 4, 2, 3, 1, 0):
        a, b = torch.ones(n), torch.ones(n)
        wanted, found = outcome(program, a), outcome(jitted, b)
        assert torch.equal(a, b), (n, a, b)
        assert torch.equal(wanted, found) if isinstance(wanted, torch.Tensor) else wanted is found, (n, wanted, found)


def test_a_function_that_changes_state_is_served_all_the_same():
    """Each state begins anew, so numbers as constants would never be reached: after three such calls it goes on in replay mode."""
    state = State()

    def program(x):
        state.log.append(1)
        return x * float(decimal.Decimal(x.shape[0]))

    jitted = escapement.jit(program)
    with torch.no_grad():
        for calls, n in enumerate((3, 4, 5, 6, 7, 8, 3, 4, 5, 6)):
            assert torch.equal(jitted(torch.ones(n)), torch.full((n,), float(n))) and len(state.log) == calls + 1
    assert jitted.info()["eager"] == {"recording_raised": 3, "state_changed": 7} and escapement.stats()["hits"] > 3


overflows = torch.library.Library("test_run_again", "DEF")
overflows.define("checked(Tensor x) -> Tensor")


@functools.partial(overflows.impl, "checked", dispatch_key="CPU")
def checked(x):
    if x.sum() > 100:
        raise OverflowError("too much")
    return x * 2


@torch.no_grad()
def test_an_operator_that_overflows():
    """Behind a write nothing runs again, whatever the error is called."""
    def written(x):
        x.add_(1)
        return torch.ops.test_run_again.checked(x)

    jitted = escapement.jit(written)
    for number in (1, 1, 1, 100, 1, 100):
        x = torch.full((3,), float(number))
        with pytest.raises(OverflowError) if number == 100 else contextlib.nullcontext():
            jitted(x)
        assert x.tolist() == [number + 1] * 3
    assert jitted.info()["recordings"] == 1
