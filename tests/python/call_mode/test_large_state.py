"""However much a function reads from elsewhere: it is compared at every call, or the function goes on in replay mode, where nothing is assumed of it."""

import array
import collections
import types

import numpy as np
import pytest
import torch

import escapement
from escapement.limits import ARRAY_BYTES, ITEMS

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]


class Node:
    def __init__(self, value, behind=None):
        self.value, self.behind = value, behind


def put(container, key):
    def change(value):
        container[key] = value
    return change


def chain(count):
    last = first = Node(1.0)
    for _ in range(count):
        last.behind = Node(1.0)
        last = last.behind
    return first, lambda value: setattr(last, "value", value)


def last_of(node):
    while node.behind is not None:
        node = node.behind
    return node


def nested(count):
    inner = outer = [1.0]
    for _ in range(count):
        outer = [outer]
    return outer, put(inner, 0)


def innermost(found):
    while type(found[0]) is list:
        found = found[0]
    return found[0]


def spaces(count):
    inner = outer = types.SimpleNamespace(value=1.0)
    for _ in range(count):
        outer = types.SimpleNamespace(inner=outer)
    return outer, lambda value: setattr(inner, "value", value)


def of_spaces(found):
    while hasattr(found, "inner"):
        found = found.inner
    return found.value


def with_change(container, change):
    return container, change(container)


def exchange(found):
    def change(value):
        found.discard(next(iter(found)))
        found.add(value + 0.5)
    return change


SOME, MUCH = ITEMS // 2, 5 * ITEMS // 2   # what is compared, and what is not
ROWS = {
    "list": (lambda n: with_change([1.0] * n, lambda c: put(c, n - 1)), lambda c: c[-1]),
    "sum of a list": (lambda n: with_change([1.0] * n, lambda c: put(c, n // 2)), sum),
    "dict": (lambda n: with_change(dict.fromkeys(range(n), 1.0), lambda c: put(c, n - 1)), lambda c: c[len(c) - 1]),
    "values of a dict": (lambda n: with_change({str(i): 1.0 for i in range(n)}, lambda c: put(c, "5")), lambda c: sum(c.values())),
    "keys of a dict": (lambda n: with_change(dict.fromkeys(map(float, range(n)), 1.0), lambda c: lambda value: c.__setitem__(value + 0.5, c.pop(next(iter(c))))), lambda c: max(c)),
    "order of a dict": (lambda n: with_change(collections.OrderedDict((float(i), i) for i in range(n)), lambda c: lambda value: c.move_to_end(value)), lambda c: next(reversed(c))),
    "set": (lambda n: with_change(set(map(float, range(n))), exchange), lambda c: max(c) + sum(c)),
    "deque": (lambda n: with_change(collections.deque([1.0] * n), lambda c: put(c, n // 2)), lambda c: c[len(c) // 2]),
    "rows": (lambda n: with_change([[1.0] * 64 for _ in range(n // 64)], lambda c: put(c[-1], -1)), lambda c: c[-1][-1]),
    "dicts": (lambda n: with_change([{"a": 1.0} for _ in range(n // 2)], lambda c: put(c[-1], "a")), lambda c: c[-1]["a"]),
    "tuples": (lambda n: with_change([(1.0, float(i)) for i in range(n // 3)], lambda c: lambda value: c.__setitem__(-1, (value, 1.0))), lambda c: c[-1][0]),
    "array of Python": (lambda n: with_change(array.array("d", [1.0] * n), lambda c: put(c, n - 1)), lambda c: c[-1]),
    "bytearray": (lambda n: with_change(bytearray(8 * n), lambda c: lambda value: c.__setitem__(-1, int(value))), lambda c: c[-1]),
    "array": (lambda n: with_change(np.ones(n), lambda c: put(c, n - 1)), lambda c: float(c[-1])),
    "array of columns": (lambda n: with_change(np.ones((n // 64, 64)).T, lambda c: put(c, (3, 4))), lambda c: float(c[3, 4])),
    "array with gaps": (lambda n: with_change(np.ones((n, 2))[:, 1], lambda c: put(c, 3)), lambda c: float(c[3])),
    "array of objects": (lambda n: with_change(np.array([1.0, None] * (n // 2)), lambda c: put(c, 0)), lambda c: c[0]),
}
assert 8 * SOME <= ARRAY_BYTES < 8 * MUCH
DEEP = {
    "chain": (chain, last_of, lambda node: node.value), "lists": (nested, innermost, float), "namespaces": (spaces, of_spaces, float),
}


class Holder:
    def __init__(self, held, read):
        self.held, self.read = held, read

    def __call__(self, x):
        return x * self.read(self.held)


def closure(held, read):
    return lambda x: x * read(held)


def namespace(held, read):
    settings = types.SimpleNamespace(held=held)
    return lambda x: x * read(settings.held)


def compare(program, change, changes=(5.0, 9.0, 5.0)):
    function, calls = escapement.jit(program), 0
    for value in changes:
        change(value)
        for size in (3, 1, 0, 7):
            x = torch.rand(size)
            calls += 1
            torch.testing.assert_close(function(x), program(x))
    return function.info(), calls


@pytest.mark.parametrize("place", [closure, Holder, namespace])
@pytest.mark.parametrize("row", ROWS)
@torch.no_grad()
def test_what_is_compared(row, place):
    make, read = ROWS[row]
    held, change = make(SOME)
    info, _ = compare(place(held, read), change)
    assert info["recordings"] <= 3 and not info["eager"], info


@pytest.mark.parametrize("place", [closure, Holder, namespace])
@pytest.mark.parametrize("row", ROWS)
@torch.no_grad()
def test_what_is_too_much(row, place):
    make, read = ROWS[row]
    held, change = make(MUCH)
    info, calls = compare(place(held, read), change)
    assert info["eager"] == {"state_not_compared": calls} and not info["recordings"], info


@pytest.mark.parametrize("count", [3, 40])
@pytest.mark.parametrize("row", DEEP)
@torch.no_grad()
def test_what_lies_deep(row, count):
    make, find, read = DEEP[row]
    held, change = make(count)
    info, calls = compare(lambda x: x * read(find(held)), change)
    assert info["eager"] == ({"state_not_compared": calls} if count == 40 else {}), info
    assert info["recordings"] <= 3


@torch.no_grad()
def test_tensors_and_objects_in_a_long_list():
    tensors, nodes = [torch.ones(()) for _ in range(1000)], [Node(1.0) for _ in range(1000)]

    def change(value):
        tensors[700], nodes[700].value = torch.tensor(value), value

    info, _ = compare(lambda x: x * tensors[700] + nodes[700].value, change)
    assert not info["eager"], info


@torch.no_grad()
def test_what_the_function_does_not_name_may_be_large():
    settings = types.SimpleNamespace(scale=2.0, table=[1.0] * (2 * ITEMS), pixels=np.ones(ARRAY_BYTES))
    info, _ = compare(lambda x: x * settings.scale, lambda value: setattr(settings, "scale", value))
    assert info["recordings"] <= 3 and not info["eager"], info


@torch.no_grad()
def test_explain_says_what_it_is():
    table = [1.0] * (2 * ITEMS)
    function = escapement.jit(lambda x: x * table[7])
    function(torch.ones(3))
    assert f"a list of {2 * ITEMS} items" in str(escapement.explain(function)(torch.ones(3)))


@torch.no_grad()
def test_bases_of_a_class_that_are_exchanged():
    class One:
        def gain(self):
            return 2.0

    class Other:
        def gain(self):
            return 3.0

    class Own(One):
        pass

    own = Own()
    info, _ = compare(lambda x: x * own.gain(), lambda value: setattr(Own, "__bases__", (One,) if value == 5.0 else (Other,)))
    assert info["recordings"] <= 3 and not info["eager"], info


def test_a_global_that_hides_a_builtin():
    names = {"torch": torch, "__name__": __name__}
    exec("def program(x):\n    return x * abs(-3.0)", names)

    def change(value):
        names.pop("abs", None)
        if value == 5.0:
            names["abs"] = lambda _: 7.0

    info, _ = compare(names["program"], change)
    assert info["recordings"] <= 3 and not info["eager"], info
