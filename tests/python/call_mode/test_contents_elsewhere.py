"""Containers that a program reads from elsewhere are compared by what they hold: sets, queues, arrays and bytes, in every place where they may stand."""

import collections
import enum
import types

import numpy as np
import pytest
import torch

import escapement

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]


class Mode(enum.Enum):
    FAST = 1
    EXACT = 2


def put(array, value):
    array[...] = value


# (the container, changes that alternate, what the program reads of it)
CONTENTS = {
    "set": (set, (lambda c: c.add("relu"), lambda c: c.discard("relu")), lambda c: 2.0 if "relu" in c else 3.0),
    "set of numbers": (lambda: {1.0, 2.0}, (lambda c: c.update((5.0, 6.0)), lambda c: c.difference_update((5.0, 6.0))), lambda c: float(sum(c))),
    "set as large": (lambda: {1, 2}, (lambda c: (c.discard(1), c.add(7)), lambda c: (c.discard(7), c.add(1))), lambda c: float(max(c))),
    "set of modes": (lambda: {Mode.EXACT}, (lambda c: c.add(Mode.FAST), lambda c: c.discard(Mode.FAST)), lambda c: 2.0 if Mode.FAST in c else 3.0),
    "set of functions": (lambda: {len}, (lambda c: c.add(max), lambda c: c.discard(max)), lambda c: float(len(c))),
    "deque": (lambda: collections.deque([1.0, 2.0], maxlen=3), (lambda c: c.append(9.0), lambda c: c.pop()), lambda c: float(sum(c))),
    "deque as long": (lambda: collections.deque([1.0, 2.0], maxlen=2), (lambda c: c.rotate(), lambda c: c.rotate()), lambda c: c[0]),
    "array": (lambda: np.ones(3), (lambda c: put(c, 2.0), lambda c: put(c, 3.0)), lambda c: float(c[1])), "matrix": (lambda: np.ones((2, 3), dtype=np.float32), (lambda c: put(c[1], 2.0), lambda c: put(c, 3.0)), lambda c: float(c.sum())),
    "array of integers": (lambda: np.arange(4), (lambda c: put(c, 2), lambda c: put(c, 5)), lambda c: float(int(c[0]))), "array of truth values": (lambda: np.zeros(2, dtype=bool), (lambda c: put(c, True), lambda c: put(c, False)), lambda c: 2.0 if c.any() else 1.0),
    "number of arrays": (lambda: np.array(2.0), (lambda c: put(c, 4.0), lambda c: put(c, 5.0)), float),
    "bytearray": (lambda: bytearray(b"ab"), (lambda c: c.__setitem__(0, 7), lambda c: c.__setitem__(0, 9)), lambda c: float(c[0])), "longer bytearray": (lambda: bytearray(b"ab"), (lambda c: c.append(3), lambda c: c.pop()), lambda c: float(len(c))),
    "array in a list": (lambda: [np.ones(2), 1], (lambda c: put(c[0], 2.0), lambda c: put(c[0], 3.0)), lambda c: float(c[0][0])), "set in a dict": (lambda: {"on": set()}, (lambda c: c["on"].add(1), lambda c: c["on"].clear()), lambda c: 1.0 + len(c["on"])),
}


class Holder:
    held = None

    def __call__(self, x):
        return x * self.read(self.held)


class Net(torch.nn.Module):
    def forward(self, x):
        return x * self.read(self.held)


def closure(container, read):
    return lambda x: x * read(container)


def default(container, read):
    def program(x, held=container):
        return x * read(held)
    return program


def attribute(container, read):
    found = Holder()
    found.held, found.read = container, read
    return found


def module(container, read):
    found = Net()
    found.held, found.read = container, read
    return found


def namespace(container, read):
    settings = types.SimpleNamespace(held=container)
    return lambda x: x * read(settings.held)


def beside_a_tensor(container, read):
    state = {"held": container, "weight": torch.ones(())}
    return lambda x: x * state["weight"] * read(state["held"])


def of_class(container, read):
    kind = type("Own", (), {"held": container, "__module__": __name__})
    return lambda x: x * read(kind.held)


PLACES = [closure, attribute, module, namespace, beside_a_tensor, of_class]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", CONTENTS)
@torch.no_grad()
def test_contents_are_compared(name, place):
    maker, changes, read = CONTENTS[name]
    container = maker()
    program = place(container, read)
    function, rounds = escapement.jit(program), 0
    for size in (3, 1, 0, 4):
        for change in changes:
            change(container)
            x = torch.rand(size)
            assert torch.equal(function(x), program(x)), (size, rounds)
            rounds += 1
    assert function.info()["recordings"] <= 3 and not function.info()["eager"], function.info()   # two, or three where the first state does not come again


class Odd:
    """Compares as the program says; whoever compares sets or arrays of such runs its code."""
    compared = 0

    def __hash__(self):
        return 1

    def __eq__(self, other):
        Odd.compared += 1
        return False


@torch.no_grad()
def test_no_code_of_the_program_runs():
    odd = Odd()
    Odd.compared = 0
    held = {"set": {odd, "name"}, "array": np.array([odd, odd]), "deque": collections.deque([odd]), "list": [odd]}
    function = escapement.jit(lambda x: x * len(held["set"]) + len(held["array"]) + len(held["deque"]) + len(held["list"]))
    for size in (3, 1, 3):
        assert function(torch.ones(size)).tolist() == [6.0] * size
    assert Odd.compared == 0 and function.info()["recordings"] == 1


@torch.no_grad()
def test_a_set_that_gets_an_odd_object():
    held = {1}
    function = escapement.jit(lambda x: x * len(held))
    assert function(torch.ones(2)).tolist() == [1, 1]
    held.add(Odd())
    assert function(torch.ones(2)).tolist() == [2, 2]
    held.clear()
    held.add(Odd())   # with the hash of 1
    assert function(torch.ones(2)).tolist() == [1, 1]


@torch.no_grad()
def test_arrays_that_are_exchanged():
    """Equal bytes are not the same array: types and shapes differ."""
    class Own:
        table = np.zeros(2)

        def __call__(self, x):
            return x + self.table.size + float(self.table.sum())

    own = Own()
    function = escapement.jit(own)
    for table in (np.zeros(2), np.zeros(4, dtype=np.float32), np.zeros((2, 1)), np.ones(2), np.ones(2)[::-1], np.ones((4, 4))[:, 1]):
        own.table = table
        assert torch.equal(function(torch.ones(3)), own(torch.ones(3)))


@torch.no_grad()
def test_a_program_that_changes_them():
    """At every call, so it goes on in replay mode."""
    def fresh():
        seen, counts, recent = set(), np.zeros(3), collections.deque(maxlen=2)

        def program(x):
            seen.add(len(seen))
            counts[0] += 1
            recent.append(float(counts[0]))
            return x * len(seen) + float(counts[0]) + sum(recent)
        return program

    program = fresh()
    function = escapement.jit(fresh())
    for size in (3, 1, 0, 4, 3, 2):
        x = torch.rand(size)
        torch.testing.assert_close(function(x), program(x))
