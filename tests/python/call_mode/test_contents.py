"""Whether dicts hold what they held: Python's count of their changes spares the comparison (src/torch/python/contents.cpp). Every way of changing a dict is one."""

import collections
import random
import types

import pytest
import torch

from escapement.core import core

NAMES = ["a", "b", "c", "d"]
VALUES = [1, 1.5, "text", None, len, torch.relu, True, 10**30]


class Own(dict):
    pass


class Object:
    def __init__(self):
        self.a = self.b = self.c = 1


class Slotted:
    __slots__ = ("a", "__dict__")


def of_object():
    made = Object()
    return made, vars(made)


def of_module():
    made = types.ModuleType("made")
    made.a = 1
    return made, vars(made)


def of_function():
    def made():
        pass
    made.a = 1
    return made, vars(made)


def of_nn_module():
    made = torch.nn.Module()
    made.a = 1
    return made, vars(made)


def of_slotted():
    made = Slotted()
    made.b = 1
    return made, vars(made)


OWNERS = {"object": of_object, "module": of_module, "function": of_function, "nn.Module": of_nn_module, "slotted": of_slotted}
DICTS = {"dict": dict, "own": Own, "ordered": collections.OrderedDict, "default": lambda items: collections.defaultdict(int, items), "counter": collections.Counter}


def by_attribute(owner, space, name, value):
    setattr(owner, name, value)


def by_deletion(owner, space, name, value):
    if name in space:
        delattr(owner, name)


def in_code(owner, space, name, value):
    """Instructions that Python specialises after a while."""
    for _ in range(40):
        owner.a = value
        owner.b = value


WAYS = {
    "item": lambda space, name, value: space.__setitem__(name, value), "update": lambda space, name, value: space.update({name: value}), "keywords": lambda space, name, value: space.update(**{name: value}),
    "or": lambda space, name, value: space.__ior__({name: value}), "default": lambda space, name, value: space.setdefault(name, value), "pop": lambda space, name, value: space.pop(name, None),
    "popitem": lambda space, name, value: space and space.popitem(), "clear": lambda space, name, value: space.clear(), "same": lambda space, name, value: space.__setitem__("a", space.get("a", 3)),
    "exec": lambda space, name, value: type(space) is dict and exec(f"{name} = value_", {"value_": value}, space), "refill": lambda space, name, value: (space.clear(), space.update({"a": value, name: 2})),
    "globals": lambda space, name, value: type(space) is dict and exec(f"def change(value):\n    global {name}\n    {name} = value\nchange(value_)", {**space, "value_": value}) or space.update({name: value}),
}


def look(space):
    """What stands there, as the comparison wants it told: a name that is missing is None."""
    return [(type(space.get(name)), space.get(name)) for name in NAMES]


def check(space, change, rounds, generator):
    dicts_of_all = core().Contents([space], []), [*space.items()]
    for _ in range(rounds):
        named, then = core().Contents([], [(space, name, space.get(name)) for name in NAMES]), look(space)
        for _ in range(generator.randrange(4)):
            assert named.same() and named.same()
        for _ in range(generator.randrange(3)):
            change(generator.choice(NAMES), generator.choice(VALUES))
            now = look(space)
            assert named.same() == (now == then), (then, now)
            assert named.same() == (now == then), (then, now)
            items = dicts_of_all[1]
            assert dicts_of_all[0].same() == (len(items) == len(space) and all(a is b and k == l for (k, a), (l, b) in zip(items, space.items())))


@pytest.mark.parametrize("way", [*WAYS, "all"])
@pytest.mark.parametrize("kind", DICTS)
def test_dicts(kind, way):
    generator, space = random.Random(0), DICTS[kind]({"a": 1, "b": 2})

    def change(name, value):
        chosen = generator.choice([*WAYS]) if way == "all" else way
        if kind == "counter" and chosen in ("update", "keywords", "or", "refill", "globals"):   # these add
            return space.__setitem__(name, value)
        WAYS[chosen](space, name, value)

    check(space, change, 200, generator)


@pytest.mark.parametrize("way", [by_attribute, by_deletion, in_code, "dict"])
@pytest.mark.parametrize("kind", OWNERS)
def test_attributes(kind, way):
    generator = random.Random(0)
    owner, space = OWNERS[kind]()
    if way == "dict":
        return check(space, lambda name, value: WAYS[generator.choice(["item", "update", "pop", "default"])](space, name, value), 200, generator)
    check(space, lambda name, value: way(owner, space, name, value), 200, generator)


def test_a_container_is_looked_into():
    """Its dict does not change when it does."""
    held = [1, 2]
    space = {"a": held, "b": {"k": 1}}
    contents = core().Contents([], [(space, "a", [1, 2]), (space, "b", {"k": 1}), (space, "c", None)])
    assert contents.same() and contents.same()
    held.append(3)
    assert not contents.same()
    held.pop()
    assert contents.same()
    space["b"]["k"] = 2
    assert not contents.same()
    space["b"]["k"] = 1
    assert contents.same()
    space["c"] = 1
    assert not contents.same()


def test_equal_values_in_turn():
    """What was found is kept, not what was not."""
    space = {"a": 1}
    contents = core().Contents([], [(space, "a", 1)])
    for value in (1, 2, 1, True, 1, 1.0, 1):
        space["a"] = value
        assert contents.same() == (type(value) is int and value == 1) == contents.same(), value


def test_names_that_change_places():
    """The same values in the same order, under other names."""
    space, a, b = {}, object(), object()
    space.update(a=a, b=b)
    contents = core().Contents([space], [])
    assert contents.same()
    space.clear()
    space.update(b=a, a=b)
    assert not contents.same()
    space.clear()
    space.update({"".join(("a", "")): a, "b": b})   # a text that is equal
    assert contents.same() and contents.same()


def test_numbers_that_belong_together():
    """Of hooks: which number one has nobody sees, but which has the same one in another dict."""
    a, b = object(), object()
    hooks, keywords = {1: a, 2: b}, {1: True}
    contents = core().Contents([hooks, keywords], [])

    def put(given, wanted):
        hooks.clear(), keywords.clear()
        hooks.update(given), keywords.update(wanted)
        return contents.same()

    assert contents.same()
    assert put({3: a, 4: b}, {3: True}) and put({3: a, 4: b}, {3: True})
    assert not put({3: a, 4: b}, {4: True}) and not contents.same()
    hooks.clear(), hooks.update({4: a, 3: b})   # only one of the two dicts changes
    assert contents.same()
    hooks.clear(), hooks.update({1: a, 2: b})
    assert not contents.same()
    assert put({1: a, 2: b}, {1: True}) and not put({2: a, 2**70: b}, {2: True}) and not put({5: a, 5.0: b}, {5: True})
