"""Containers that a function is given, changes, holds on to and returns: which objects are one, what is in them and in which order, and what the
caller's hold afterwards, is eager's: when a call is recorded, when it is served, and when it cannot be compiled."""

import collections
import dataclasses
import warnings
from collections import OrderedDict, defaultdict, deque

import pytest
import torch

import escapement


@dataclasses.dataclass
class Fields:
    a: object
    b: object = None


@dataclasses.dataclass
class Slots:
    __slots__ = ("a", "b")
    a: object
    b: object


@dataclasses.dataclass
class ListToo(list):
    a: object = None


class Half:
    """A slot that nobody fills."""
    __slots__ = ("a", "never")


HalfFilled = dataclasses.make_dataclass("HalfFilled", ["a"], bases=(Half,))
Pair = collections.namedtuple("Pair", "a b")


class Marked(Pair):
    """Has a __dict__ beside its items."""


def marked(x, n):
    made = Marked(x, n)
    made.mark = n
    return made


class Opaque:
    def __init__(self, value):
        self.value = value


GIVEN = {
    "list": lambda x, n: [x, x * 2], "list of n": lambda x, n: [x + i for i in range(n)], "twice": lambda x, n: [x, x, [x]], "empty list": lambda x, n: [], "nested": lambda x, n: [[x], (x, [n])],
    "dict": lambda x, n: {"a": x, "b": x + 1}, "OrderedDict": lambda x, n: OrderedDict(a=x, b=n), "defaultdict": lambda x, n: defaultdict(list, a=x), "deque": lambda x, n: deque([x, n]),
    "short deque": lambda x, n: deque([x, x + 1], maxlen=2), "dataclass": lambda x, n: Fields(x), "slots": lambda x, n: Slots(x, n), "a list with fields": lambda x, n: ListToo(x), "half filled": lambda x, n: HalfFilled(x),
    "tuple": lambda x, n: (x, n), "named": lambda x, n: Pair(x, [n]), "marked": marked, "None": lambda x, n: [None, x, None], "in a dict": lambda x, n: {"a": [x], "b": Fields(x, [n])},
    "pairs as keys": lambda x, n: {(1 if n % 2 else True, "x"): x}, "zeros as keys": lambda x, n: {(0.0 if n % 2 else -0.0,): x}, "sets as keys": lambda x, n: {frozenset([1 if n % 2 else True]): x},
    "range": lambda x, n: range(0, 3 + n % 2, 2), "empty range": lambda x, n: range(n, n), "None or a tensor": lambda x, n: [x if n % 2 else None], "a number or a tensor": lambda x, n: [x if n % 2 else n],
}


def tensors(c):
    if isinstance(c, torch.Tensor):
        return [c]
    if dataclasses.is_dataclass(c):
        return tensors(getattr(c, "a", None)) + tensors(getattr(c, "b", None))
    parts = c.values() if isinstance(c, dict) else c if isinstance(c, (list, tuple, deque)) else ()
    return [t for part in parts for t in tensors(part)]


def change(c, x):
    if isinstance(c, (list, deque)):
        c.append(x * 3)
    elif isinstance(c, dict):
        c["new"] = x * 3
    elif dataclasses.is_dataclass(c):
        c.b = x * 3


def changed(c, x):
    change(c, x)
    return x + 1


def changed_and_returned(c, x):
    change(c, [x])
    return c, {"c": c}


def a_new_one_shared(c, x):
    new = [x + 1]
    change(c, new)
    if isinstance(c, list):
        c.append(new)
    return new, {"new": new, "again": [new, (new,)]}


def emptied(c, x):
    if hasattr(c, "clear"):
        c.clear()
    return x + 1


def reordered(c, x):
    if isinstance(c, dict) and c:
        first = next(iter(c))
        c[first] = c.pop(first)
    elif isinstance(c, (list, deque)):
        c.reverse()
    return c


def removed(c, x):
    return c.pop() if isinstance(c, (list, deque)) and c else c.popitem() if isinstance(c, dict) and c else None


def replaced(c, x):
    for number in range(len(c)) if isinstance(c, (list, deque)) else list(c) if isinstance(c, dict) else ():
        c[number] = c[number] * 2 if isinstance(c[number], torch.Tensor) else [c[number]]
    return x + 1


def listed(c, x):
    return x + 1, list(c) if hasattr(c, "__iter__") else None, [c] if isinstance(c, range) else None, vars(c) if hasattr(c, "__dict__") else None


def written_and_unknown(c, x):
    """What has happened cannot happen twice, and the result has no structure."""
    change(c, x)
    for t in tensors(c):
        t.add_(1)
    return [Opaque(1), c, [x, *tensors(c)], {1, 2}]


def unknown(c, x):
    change(c, x)
    return [Opaque(1), c, x, {1, 2}]


def written_and_raised(c, x):
    change(c, x)
    x.add_(1)
    change(c, [x])
    raise KeyError("mine")


def raised(c, x):
    change(c, x)
    raise KeyError("mine")


def holding_itself(c, x):
    made = [x + 1]
    made.append(made)
    return made


def where_positive(c, x):
    total = x.sum()
    if total > 4:
        change(c, total)
    return total


USES = [changed, changed_and_returned, a_new_one_shared, emptied, reordered, removed, replaced, listed, written_and_unknown, unknown, written_and_raised, raised, holding_itself,
        where_positive]


def form(value, met):
    """What can be seen of a value: its items, and which objects are one. `met`: id -> number."""
    if isinstance(value, (type(None), bool, int, float, str, range, frozenset)):
        return type(value), repr(value)
    if not isinstance(value, tuple):
        if id(value) in met:
            return met[id(value)]
        met[id(value)] = len(met)
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, value.tolist()
    slots = [(name, form(getattr(value, name), met)) for name in getattr(type(value), "__slots__", ()) if hasattr(value, name)]
    named = [(name, form(part, met)) for name, part in getattr(value, "__dict__", {}).items()]
    rest = [getattr(value, "default_factory", None), getattr(value, "maxlen", None)]
    return type(value), [form(part, met) for part in items(value)], slots, named, rest


def items(value):
    if isinstance(value, dict):
        return [*value, *value.values()]
    return sorted(value) if isinstance(value, set) else value if isinstance(value, (list, tuple, deque)) else ()


def outcome(function, given, n):
    x = torch.arange(2.0 * n).reshape(n, 2)
    c = given(x, n)
    try:
        result = function(c, x)
    except KeyError as error:
        result = str(error)
    return form((c, x, result), {})


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_what_becomes_of_containers(use, mode):
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, given in GIVEN.items():
            compiled = escapement.jit(use, mode=mode)
            for n in (2, 1, 0, 3, 2):
                assert outcome(compiled, given, n) == outcome(use, given, n), (name, n)
            assert not any("internal_error" in region.get("fallbacks", {}) for region in compiled.info().get("regions", [])), name


def test_changed_containers_are_compiled():
    """A deque, a defaultdict and a list that stands twice are no reason to run eagerly."""
    def program(queue, table, x):
        queue.append(x + 1)
        table["n"].append(x * 2)
        return table["n"], {"twice": table["n"]}

    with torch.no_grad():
        compiled = escapement.jit(program, strict=True)
        for n in (3, 2, 5):
            x = torch.ones(n)
            queue, table = deque([x], maxlen=2), defaultdict(list)
            result = compiled(queue, table, x)
            assert [t.tolist() for t in queue] == [[1.0] * n, [2.0] * n]
            assert result[0] is result[1]["twice"] is table["n"] and table["n"][0].tolist() == [2.0] * n and table.default_factory is list
        assert compiled.info()["recordings"] == 1


def test_keys_that_the_program_made_are_not_kept():
    """A tensor as a key is this call's."""
    def program(x):
        return {x + 1: 1}

    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = escapement.jit(program)
        for n in (2, 3, 4):
            (key,) = compiled(torch.ones(n))
            assert torch.equal(key, torch.full((n,), 2.0))


def test_a_container_is_changed_where_gradients_end_the_recording():
    def program(c, x):
        c.append(x.add_(1))
        with torch.enable_grad():
            (x * w).sum().backward()

    w = torch.ones(3, requires_grad=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = escapement.jit(program)
        for _ in range(2):
            c, x = [], torch.ones(3)
            compiled(c, x)
            assert len(c) == 1 and c[0] is x and x.tolist() == [2.0] * 3
