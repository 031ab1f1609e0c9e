"""What a function reads, changed between calls in ways of which Dynamo guards some only: the next call under torch.compile has what eager has."""

import collections
import functools
import itertools
import random
import types
import weakref

import numpy as np
import pytest
import torch
from torch import nn

import escapement

pytestmark = pytest.mark.usefixtures("fresh")


class Base:
    value, parts = 2.0, [1.0]

    @property
    def doubled(self):
        return self.value * 2


class Derived(Base):
    pass


class Holder(types.SimpleNamespace):
    pass


def numbers():
    for value in itertools.count(1):
        yield float(value)


def in_derived(held):
    Derived.value = 5.0


def in_base(held):
    Base.value = 5.0


# (what is held, the function, what changes)
CASES = {
    "attribute of a derived class": (lambda: Derived(), lambda held, x: x * held.value, in_derived),
    "the same, of the class itself": (lambda: Derived, lambda held, x: x * held.value, in_derived),
    "the same, behind a property": (lambda: Derived(), lambda held, x: x * held.doubled, in_derived),
    "attribute of a base": (lambda: Derived(), lambda held, x: x * held.value, in_base),
    "a property that comes": (lambda: Derived(), lambda held, x: x * held.doubled, lambda held: setattr(Derived, "doubled", property(lambda self: 9.0))),
    "a list of a class": (lambda: Derived(), lambda held, x: x * sum(held.parts), lambda held: Base.parts.append(3.0)),
    "own attribute in front of a class's": (lambda: Derived(), lambda held, x: x * held.value, lambda held: setattr(held, "value", 7.0)),
    "drawn": (lambda: random.Random(1), lambda held, x: x * held.random(), lambda held: None),
    "drawn, seeded anew": (lambda: random.Random(1), lambda held, x: x * held.uniform(1, 2), lambda held: held.seed(7)),
    "drawn, an integer": (lambda: random.Random(1), lambda held, x: x * held.randint(1, 100), lambda held: held.seed(7)),
    "drawn from one that the function makes": (lambda: None, lambda held, x: x * random.Random(3).random(), lambda held: None),
    "drawn from Python's own": (lambda: random.seed(1), lambda held, x: x * random.random(), lambda held: random.seed(7)),
    "drawn from NumPy's": (lambda: np.random.default_rng(1), lambda held, x: x * float(held.random()), lambda held: held.random()),
    "generator": (numbers, lambda held, x: x * next(held), lambda held: next(held)),
    "cycle": (lambda: itertools.cycle([1.0, 2.0]), lambda held, x: x * next(held), lambda held: next(held)),
    "order of a dict": (lambda: {"a": 1.0, "b": 2.0}, lambda held, x: x * next(iter(held.values())), lambda held: held.__setitem__("a", held.pop("a"))),
    "a key that was missing": (dict, lambda held, x: x * held.get("k", 2.0), lambda held: held.__setitem__("k", 7.0)),
    "factory of a dict": (lambda: collections.defaultdict(lambda: 2.0), lambda held, x: x * held[len(held)], lambda held: setattr(held, "default_factory", lambda: 9.0)),
    "front of a chain": (lambda: collections.ChainMap({"a": 1.0}), lambda held, x: x * held["a"], lambda held: held.maps.insert(0, {"a": 5.0})),
    "deque": (lambda: collections.deque([1.0], maxlen=2), lambda held, x: x * held[0], lambda held: held.appendleft(5.0)),
    "set": (lambda: {1, 2}, lambda held, x: x * sum(held), lambda held: held.add(5)),
    "keywords of a partial function": (lambda: functools.partial(torch.add, alpha=2), lambda held, x: held(x, x), lambda held: held.keywords.__setitem__("alpha", 5)),
    "class of an object": (lambda: Base(), lambda held, x: x * 2 if isinstance(held, Derived) else x, lambda held: setattr(held, "__class__", Derived)),
    "one object or two": (lambda: Holder(a=[1], b=[1]), lambda held, x: x * 2 if held.a is held.b else x, lambda held: setattr(held, "b", held.a)),
    "behind a weak reference": (lambda: Holder(a=Base()), lambda held, x: x * weakref.ref(held.a)().value, lambda held: setattr(held.a, "value", 9.0)),
    "sign of zero": (lambda: Holder(a=0.0), lambda held, x: torch.copysign(x, torch.tensor(held.a)), lambda held: setattr(held, "a", -0.0)),
    "dtype of a tensor": (lambda: Holder(a=torch.ones(3)), lambda held, x: x + held.a.sum(), lambda held: setattr(held.a, "data", torch.ones(7, dtype=torch.float64))),
    "size of a tensor": (lambda: Holder(a=torch.ones(3)), lambda held, x: x * held.a.numel(), lambda held: held.a.resize_(7).fill_(1)),
    "a tensor's attribute": (lambda: Holder(a=torch.ones(3)), lambda held, x: x * getattr(held.a, "scale", 2.0), lambda held: setattr(held.a, "scale", 5.0)),
    "a tensor's gradient": (lambda: Holder(a=torch.ones(3, requires_grad=True)), lambda held, x: x if held.a.grad is None else x * held.a.grad.sum(), lambda held: setattr(held.a, "grad", torch.ones(3))),
    "a module more": (lambda: nn.ModuleList([nn.Identity()]), lambda held, x: functools.reduce(lambda y, layer: layer(y), held, x), lambda held: held.append(nn.Tanh())),
}


def put_back():
    Base.value, Base.parts = 2.0, [1.0]
    for name in ("value", "doubled"):
        if name in vars(Derived):
            delattr(Derived, name)


def outcomes(make, function, change, wrap):
    held, results = make(), []
    call = wrap(lambda x: function(held, x))
    for number in range(3):
        if number:
            change(held)
        results += [call(torch.arange(1.0, rows * 3 + 1).view(rows, 3)) for rows in (2, 3)]
    return results


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_as_eager(name):
    wanted = outcomes(*CASES[name], lambda function: function)
    put_back()
    given = outcomes(*CASES[name], functools.partial(torch.compile, backend="escapement"))
    put_back()
    for number, pair in enumerate(zip(given, wanted)):
        torch.testing.assert_close(*pair, msg=lambda text: f"{number}: {text}")  # noqa: B023


@torch.no_grad()
def test_attributes_of_classes_are_no_compile():
    held = Derived()
    function = torch.compile(lambda x: x * held.value + held.doubled, backend="escapement")
    for rows in (2, 3, 1):
        function(torch.ones(rows))
    assert escapement.stats()["dynamo"]["compiles"] == 1
