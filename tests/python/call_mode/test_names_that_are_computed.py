"""Attributes by names that stand nowhere in the code: all of them count, where a name may be anything."""

import copy
import dataclasses
import json
import operator
import pickle

import pytest
import torch

import escapement
from escapement.tracer.names import asks_by_variable

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]

# (the code, whether the name may be anything)
CODE = [
    (lambda o: getattr(o, "a"), False), (lambda o: getattr(o, "a", None), False), (lambda o: getattr(o.b.c, "a", o.d + 1), False), (lambda o: hasattr(o, "a") and o.a, False),
    (lambda o, n: getattr(o[n + 1], "b") + getattr(o.x(), "c"), False), (lambda o: getattr(getattr(o, "x"), "y", 1) * getattr(o, "z"), False),
    (lambda o, g: g(getattr(o, "y", g(1, 2, k=3))), False), (lambda o: getattr(o, "a")(1, 2), False), (lambda o: getattr(o, "a", lambda x: x), False),
    (lambda o, g: getattr(g(o, k=1), "a", g(2)), False), (lambda o, g: getattr(g(o).h(3)[1:2], "a", g(2)), False), (lambda o: getattr([*o, {1: 2}], "a"), False),
    (lambda o, n: getattr(torch.nn, "relu")(n), False), (lambda o: o.getattr, False),
    (lambda o, n: getattr(o, n), True), (lambda o, n: getattr(o, "a" + n), True), (lambda o, n: getattr(o, f"a{n}", 3), True), (lambda o, n: getattr(o, "".join(n), 3), True),
    (lambda o, n: getattr(o, "a_%d" % n), True), (lambda o, n: hasattr(o, "a_{}".format(n)), True), (lambda o: getattr(o, o.name), True), (lambda o, g: getattr(o, g("a")), True),
    (lambda o, n: getattr(getattr(o, n), "y", 1), True), (lambda o: getattr(*o), True), (lambda o: map(getattr, o), True),
    (lambda o: setattr(o, "a", 0), False), (lambda o, n: setattr(o, n, 0), True), (lambda o, n: setattr(o, "a" + n, "b"), True), (lambda o, n: delattr(o, n), True), (lambda o: delattr(o, "a"), False),
    (lambda o: operator.attrgetter("a.b")(o), False), (lambda o: operator.attrgetter("a", "b")(o), False), (lambda o, n: operator.attrgetter(n)(o), True), (lambda o, n: operator.attrgetter("a", n)(o), True),
    (lambda o, n: operator.methodcaller("a", n)(o), False), (lambda o, n: operator.methodcaller("on_" + n, 1)(o), True), (lambda o: sorted(o, key=operator.attrgetter("a")), False),
    (lambda o, n: object.__setattr__(o, n, "a"), True), (lambda o, v: object.__setattr__(o, "a", v), False), (lambda o, n: o.__setattr__(n, 1), True), (lambda o, v: o.__setattr__("a", v), False),
    (lambda o, n: object.__delattr__(o, n), True), (lambda o: o.__delattr__("a"), False),
]


@pytest.mark.parametrize("row", range(len(CODE)))
def test_which_names_may_be_anything(row):
    function, anything = CODE[row]
    assert asks_by_variable(function.__code__) == anything


@dataclasses.dataclass
class Own:
    gain_a: float = 2.0
    calls: int = 0

    fields = ["gain_a"]

    def total(self):
        return sum(getattr(self, name) for name in self.fields)

    def of(self, kind):
        return getattr(self, "gain_" + kind)

    def joined(self):
        return getattr(self, "_".join(["gain", "a"]))

    def lowered(self):
        return getattr(self, "GAIN_A".lower())


READING = {
    "names in a list": lambda o: o.total(), "concatenated": lambda o: o.of("a"), "joined": lambda o: o.joined(), "lowered": lambda o: o.lowered(),
    "attrgetter": lambda o: operator.attrgetter("gain_" + "ab"[0])(o), "__getattribute__": lambda o: o.__getattribute__("gain_" + "ab"[0]), "__dict__": lambda o: dict(o.__dict__)["gain_" + "a"],
    "fields": lambda o: getattr(o, dataclasses.fields(o)[0].name), "astuple": lambda o: dataclasses.astuple(o)[0], "replaced": lambda o: dataclasses.replace(o, calls=3).gain_a,
    "copied": lambda o: copy.copy(o).gain_a, "printed": lambda o: float(len(repr(o))), "pickled": lambda o: float(len(pickle.dumps(o.gain_a))) * o.gain_a, "equal": lambda o: 2.0 if o == Own(9000.0) else 3.0,
    "format": lambda o: float(len("{0.gain_a}".format(o))), "json": lambda o: float(len(json.dumps(o, default=lambda other: other.__dict__))),
}


@pytest.mark.parametrize("reading", READING)
@torch.no_grad()
def test_each_change_is_noticed(reading):
    own, read = Own(), READING[reading]
    function = escapement.jit(lambda x: x * read(own))
    for gain in (2.0, 9000.0, 2.0, 31.5):
        own.gain_a = gain
        for size in (3, 1, 0, 7):
            assert torch.equal(function(torch.ones(size)), torch.ones(size) * read(own)), gain
    assert function.info()["recordings"] <= 3 and not function.info()["eager"], function.info()
