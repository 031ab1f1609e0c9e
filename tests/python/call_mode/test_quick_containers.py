"""Calls with containers among their arguments and results are served by the core alone (src/torch/python/structures.h); what the core cannot tell
from a call that it knows goes to Python, and means the same."""

import collections
import typing

import pytest
import torch

import escapement
from escapement.tracer.jitted import Jitted

Pair = collections.namedtuple("Pair", "first second")


class Typed(typing.NamedTuple):
    first: torch.Tensor
    scale: float = 2.0


class Methods(collections.namedtuple("Methods", "first")):
    """A class of its own behind the named one: it may hold attributes."""


def tensors(n, count=2):
    return [torch.full((n, 2), float(i + n)) for i in range(count)]


# What is called with, for a number of rows.
GIVEN = {
    "list": lambda n: ([*tensors(n)],), "tuple": lambda n: (tuple(tensors(n)),), "dict": lambda n: (dict(zip("ab", tensors(n))),),
    "named": lambda n: (Pair(*tensors(n)),), "typed": lambda n: (Typed(tensors(n)[0]),), "size": lambda n: (torch.Size([n, 2]),), "ints": lambda n: ([n, 2 * n],),
    "nested": lambda n: ({"a": [(tensors(n)[0], None)], "b": {"c": Pair(tensors(n)[1], "text")}},), "empty": lambda n: ([], {}, (), *tensors(n)),
    "two": lambda n: ([tensors(n)[0]], {"a": tensors(n)[1]}), "many": lambda n: (tensors(n, 40),), "floats": lambda n: ([0.5 * n, *tensors(n)],),
    "flags": lambda n: ({"a": tensors(n)[0], "flag": True, "dtype": torch.float32},),
}


def leaves(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        yield from leaves([*value.values()])


def numbers(value):
    if isinstance(value, (int, float, torch.SymInt, torch.SymFloat)) and not isinstance(value, bool):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from numbers(item)


def total(arguments):
    return sum((leaf.sum(0) for leaf in leaves(arguments)), torch.zeros(2)) + sum(numbers(arguments))


# What comes back.
MADE = {
    "tensor": lambda a: total(a), "tuple": lambda a: (total(a), total(a) * 2), "list": lambda a: [total(a)], "dict": lambda a: {"x": total(a), "y": (total(a) + 1, None)},
    "named": lambda a: Pair(total(a), [1, "text", 2.5, total(a)]), "typed": lambda a: Typed(total(a)), "itself": lambda a: (a[0], total(a)),
    "nested": lambda a: [{"a": [total(a)]}, ((), {})], "sizes": lambda a: (total(a).shape, total(a)), "constants": lambda a: (None, True, torch.float32),
}


@pytest.fixture
def slow(monkeypatch):
    """How many calls reached Python."""
    calls, before = [], Jitted._call
    monkeypatch.setattr(Jitted, "_call", lambda *args: calls.append(1) or before(*args))
    return calls


def equal(ours, eager):
    assert type(ours) is type(eager)
    if isinstance(eager, torch.Tensor):
        torch.testing.assert_close(ours, eager)
    elif isinstance(eager, (list, tuple)):
        assert len(ours) == len(eager)
        for pair in zip(ours, eager):
            equal(*pair)
    elif isinstance(eager, dict):
        assert [*ours] == [*eager]
        for key in eager:
            equal(ours[key], eager[key])
    else:
        assert ours == eager


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("given", GIVEN)
def test_containers_do_not_reach_python(given, made, slow):
    jitted = escapement.jit(lambda *args: MADE[made](args))
    for n in (3, 5, 2):
        arguments = GIVEN[given](n)
        ours = jitted(*arguments)
        equal(ours, MADE[made](arguments))
        assert made != "itself" or ours[0] is arguments[0] or isinstance(arguments[0], tuple)   # which nobody can change
    if given != "floats":   # a float is a constant for its first two values
        before = len(slow)
        equal(jitted(*GIVEN[given](5)), MADE[made](GIVEN[given](5)))
        assert len(slow) == before


shared = [torch.ones(2)]


def changes(items):
    items.append(items[0] + len(items))
    return items[-1] * 2


def renames(items):
    items["b"] = items.pop("a") + 1
    return items["b"] * 2


def finds(items):
    return items[0] + shared[0], items is shared


# What another call may bring that is not what the last ones brought.
OTHER = {
    "longer": (lambda l: sum(l), [([torch.ones(2)],), ([torch.ones(2)] * 1 + [torch.zeros(2)],), ([torch.ones(2)],)]),
    "keys in another order": (lambda d: [*d.values()][0] * 2, [({"a": torch.ones(2), "b": torch.zeros(2)},), ({"b": torch.zeros(2), "a": torch.ones(2)},)]),
    "another key": (lambda d: (d.get("a", 0) + 1, [*d]), [({"a": torch.ones(2)},), ({"b": torch.ones(2)},)]),
    "another constant": (lambda l: l[0] * 2 if l[1] else l[0] + 1, [([torch.ones(2), True],), ([torch.ones(2), False],), ([torch.ones(2), 1],)]),
    "another type": (lambda l: l[0] + len(type(l).__name__), [([torch.ones(2)],), ((torch.ones(2),),), (collections.deque([torch.ones(2)]),)]),
    "a subclass": (lambda d: d["a"] + len(type(d).__name__), [({"a": torch.ones(2)},), (collections.OrderedDict(a=torch.ones(2)),), (collections.defaultdict(int, a=torch.ones(2)),)]),
    "a class of its own": (lambda t: t.first * 2, [(Methods(torch.ones(2)),), (Methods(torch.zeros(2)),)]),
    "one tensor twice": (lambda l: l[0] + 1 if l[0] is l[1] else l[0] * 2, [([torch.ones(2), torch.ones(2)],), ([shared[0], shared[0]],), ([torch.ones(2), torch.ones(2)],)]),
    "one list twice": (lambda a, b: (a is b, a[0] + b[0]), [([torch.ones(2)], [torch.ones(2)]), (shared, shared), ([torch.ones(2)], [torch.ones(2)])]),
    "a list from elsewhere": (finds, [([torch.ones(2)],), ([torch.zeros(2)],), (shared,), ([torch.ones(2)],)]),
    "a number that is none": (lambda l: l[0] * l[1], [([torch.ones(2), 0.5],), ([torch.ones(2), 0.25],), ([torch.ones(2), 0.75],), ([torch.ones(2), float("nan")],)]),
    "a large integer": (lambda l: l[0] + l[1] % 7, [([torch.ones(2), 5],), ([torch.ones(2), 6],), ([torch.ones(2), 2**70],)]),
    "a parameter": (lambda l: l[0] * 2, [([torch.ones(2)],), ([torch.nn.Parameter(torch.ones(2), requires_grad=False)],), ([torch.ones(2, requires_grad=True)],)]),
    "it holds itself": (lambda l: l[0] * 2, [([torch.ones(2), 1],), ([torch.ones(2), shared],)]),
}


@pytest.mark.parametrize("gradients", (True, False), ids=("gradients", "none"))   # with them, a function that finds a tensor elsewhere is not served
@pytest.mark.parametrize("name", OTHER)
def test_other_calls(name, gradients):
    function, calls = OTHER[name]
    jitted = escapement.jit(function)
    for arguments in (*calls, *calls, *reversed(calls)):
        with torch.set_grad_enabled(gradients):
            ours, eager = jitted(*arguments), function(*arguments)
        if isinstance(eager, torch.Tensor):
            assert ours.requires_grad == eager.requires_grad
            torch.testing.assert_close(ours, eager, equal_nan=True)
        else:
            equal(ours, eager)


@pytest.mark.parametrize("function, make", ((changes, lambda: [torch.ones(2)]), (renames, lambda: {"a": torch.ones(2)})), ids=("list", "dict"))
def test_what_the_function_changes(function, make, slow):
    jitted = escapement.jit(function)
    for _ in range(4):
        ours, eager = make(), make()
        equal(jitted(ours), function(eager))
        equal(ours, eager)
    assert len(slow) <= 2


def test_a_container_that_another_thread_changes_meanwhile():
    import threading

    jitted, items, stop = escapement.jit(lambda l: sum(l)), [torch.ones(64) for _ in range(4)], threading.Event()

    def write():
        while not stop.is_set():
            items[:] = [torch.ones(64) for _ in range(4)]

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(3000):
            assert jitted(items).sum() == 4 * 64
    finally:
        stop.set()
        thread.join()
