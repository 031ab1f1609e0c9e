"""What a program asks about the type of a size or of a number that it has read: as of an int, float or bool. QUESTIONS x NUMBERS; and what else it does with
the name `type` while it is recorded."""

import collections.abc
import functools
import numbers
import operator
import sys
import typing

import pytest
import torch
from answered import outcome

import escapement

pytestmark = pytest.mark.usefixtures("fresh")
HERE = sys.modules[__name__]


@functools.singledispatch
def dispatched(n):
    return 1.0


@dispatched.register
def _(n: int):
    return 2.0


@dispatched.register
def _(n: float):
    return 3.0


class Visitor:
    def visit(self, n):
        return getattr(self, "visit_" + type(n).__name__, lambda n: 9.0)(n)

    def visit_int(self, n):
        return 5.0

    def visit_float(self, n):
        return 6.0

    def visit_bool(self, n):
        return 7.0


def matched(n):
    match n:
        case bool():
            return 1.0
        case int():
            return 2.0
        case float():
            return 3.0
    return 4.0


VISITOR, TABLE = Visitor(), {int: 1.0, float: 2.0, bool: 3.0}
QUESTIONS = {
    "isinstance": lambda n: 2.0 if isinstance(n, int) else 3.0 if isinstance(n, float) else 4.0,
    "union": lambda n: 2.0 if isinstance(n, typing.Union[int, str]) else 3.0 if isinstance(n, typing.Optional[float]) else 4.0, "either": lambda n: 2.0 if isinstance(n, int | str) else 3.0,
    "is int": lambda n: 2.0 if type(n) is int else 3.0 if type(n) is float else 4.0 if type(n) is bool else 5.0,
    "== int": lambda n: 2.0 if type(n) == int else 3.0 if type(n) == float else 4.0,  # noqa: E721
    "in": lambda n: 2.0 if type(n) in (int, float) else 3.0, "in a set": lambda n: 2.0 if type(n) in {int, float, bool} else 3.0,
    "dispatch": dispatched, "visitor": VISITOR.visit, "table": lambda n: TABLE[type(n)], "table get": lambda n: TABLE.get(type(n), 9.0),
    "class": lambda n: 2.0 if n.__class__ is int else 3.0 if n.__class__ is float else 4.0, "subclass": lambda n: 2.0 if issubclass(type(n), int) else 3.0,
    "integral": lambda n: 2.0 if isinstance(n, numbers.Integral) else 3.0 if isinstance(n, numbers.Real) else 4.0,
    "name": lambda n: float(len(type(n).__name__)), "mro": lambda n: float(len(type(n).__mro__)), "made": lambda n: float(type(n)(2)),
    "type of 1": lambda n: 2.0 if type(n) is type(1) else 3.0, "of a sum": lambda n: 2.0 if type(n) is type(n + 1) else 3.0,
    "of a half": lambda n: 2.0 if type(n / 2) is float else 3.0, "of a comparison": lambda n: 2.0 if type(n > 2) is bool else 3.0,
    "text": lambda n: float(len(str(type(n)))), "mapped": lambda n: 2.0 if list(map(type, [n])) == [int] else 3.0,
    "types": lambda n: float(len({type(n), int, float})), "all": lambda n: 2.0 if all(type(v) is int for v in (n, n)) else 3.0,
    "match": matched, "index": lambda n: 2.0 if isinstance(n, typing.SupportsIndex) else 3.0, "hashable": lambda n: 2.0 if isinstance(n, collections.abc.Hashable) else 3.0,
    "module": lambda n: 2.0 if type(n).__module__ == "builtins" else 3.0, "partial": lambda n: 2.0 if functools.partial(type)(n) is int else 3.0,
}
NUMBERS = {
    "size": lambda x, k: x.shape[0], "numel": lambda x, k: x.numel(), "item": lambda x, k: x.sum().item(), "int of a sum": lambda x, k: int(x.sum()),
    "bool": lambda x, k: (x.sum() > 2).item(), "rank": lambda x, k: x.dim(), "int": lambda x, k: k, "float": lambda x, k: k / 4, "len": lambda x, k: len(x),
    "expression": lambda x, k: x.shape[0] * 2 + 1, "stride": lambda x, k: x.stride(0), "half": lambda x, k: x.shape[0] / 2, "index": lambda x, k: operator.index(x.shape[0]),
    "integer item": lambda x, k: x.long().sum().item(),
}


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_type_of_a_number(question, mode):
    for name, number in NUMBERS.items():
        def program(x, k):
            return x * QUESTIONS[question](number(x, k))

        jitted = escapement.jit(program, mode=mode)
        with torch.no_grad():
            for n in (3, 1, 4, 2, 3):
                wanted, found = outcome(program, torch.ones(n), n), outcome(jitted, torch.ones(n), n)
                assert wanted is found or torch.equal(wanted, found), (name, n, wanted, found)


def test_types_are_no_reason_to_specialise():
    jitted = escapement.jit(lambda x: x * 2 if type(x.shape[0]) is int else x)
    for n in (5, 6, 7, 8):
        assert torch.equal(jitted(torch.ones(n)), torch.ones(n) * 2)
    assert jitted.info()["recordings"] == 1 and not jitted.info()["eager"]


class Meta(type):
    pass


USES = {
    "isinstance": lambda: isinstance(int, type) and not isinstance(1, type), "issubclass": lambda: issubclass(Meta, type) and not issubclass(int, type),
    "made": lambda: type("Made", (), {"a": 1}).a == 1, "of a class": lambda: type(int) is not Meta and type(Meta("M", (), {})) is Meta,
    "equal": lambda: type(int) == type and type == type(int) and {type: 1}[type(int)] == 1,  # noqa: E721
    "base": lambda: isinstance(made_of_base(), type), "metaclass": lambda: made_of_meta().__class__.__name__ == "type", "attribute": lambda: type.__name__ == "type",
    "method": lambda: type.mro(bool)[1] is int, "generic": lambda: typing.get_origin(type[int]) in (None, int.__class__), "union": lambda: (type | None) is not None,
    "of a tensor": lambda: type(torch.ones(1)) is torch.Tensor, "of a shape": lambda: type(torch.ones(1).shape) is torch.Size, "text": lambda: repr(type) == "<class 'type'>",
}


def made_of_base():
    class Inner(type):
        pass
    return Inner


def made_of_meta():
    class Inner(metaclass=type):
        pass
    return Inner


@pytest.mark.parametrize("use", USES)
def test_other_uses_of_the_name(use):
    def program(x):
        type(x.shape[0])
        return x + (1 if USES[use]() else 0)

    jitted = escapement.jit(program)
    for n in (3, 4, 1):
        assert torch.equal(jitted(torch.zeros(n)), torch.ones(n))
    assert "type" not in vars(HERE)


def test_a_module_that_means_another_thing_by_it(monkeypatch):
    monkeypatch.setattr(HERE, "type", lambda n: "mine", raising=False)
    jitted = escapement.jit(lambda x: x * (2 if type(x.shape[0]) == "mine" else 3))
    assert torch.equal(jitted(torch.ones(3)), torch.full((3,), 2.0))
    monkeypatch.delattr(HERE, "type")
    assert torch.equal(jitted(torch.ones(3)), torch.full((3,), 3.0))
