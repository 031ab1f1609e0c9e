"""A size beside numbers that are of a class of their own: members of an IntEnum, of subclasses of int and float, decimals, fractions, truth values. Each comparison
is Python's, in each way of running, and as a relation: one that does not hold at other sizes does not stay.
"""

import decimal
import enum
import fractions

import numpy
import pytest
import torch

import escapement
from escapement.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh")


class Channels(enum.IntEnum):
    GRAY = 1
    RGB = 3


class Flags(enum.IntFlag):
    FOUR = 4
    TWO = 2


class OwnInt(int):
    pass


class OwnFloat(float):
    pass


class Contrary(int):
    """With an equality of its own."""

    def __eq__(self, other):
        return not int(self) == other

    __hash__ = int.__hash__


NUMBERS = {
    "IntEnum": Channels.RGB, "IntFlag": Flags.FOUR, "subclass of int": OwnInt(3), "subclass of float": OwnFloat(3.0), "decimal": decimal.Decimal(3), "fraction": fractions.Fraction(3),
    "True": True, "complex": 3 + 0j, "of NumPy": numpy.int64(3),
}
FORMS = {
    "equal": lambda n, number: n == number, "equal, turned": lambda n, number: number == n, "not equal": lambda n, number: n != number, "in a tuple": lambda n, number: n in (7, number),
    "in a list of sizes": lambda n, number: number in [n, 9], "not in": lambda n, number: n not in [number], "in a tuple of a tuple": lambda n, number: (n, 1) == (number, 1),
    "a branch": lambda n, number: "yes" if n == number else "no", "index": lambda n, number: [7, n].index(number) if n == number else None,
}
ORDERS = {"less": lambda n, number: n < number, "at least": lambda n, number: n >= number, "sum": lambda n, number: n + number, "product, turned": lambda n, number: number * n}
WAYS = {
    "compile": lambda function: torch.compile(function, backend="escapement"), "call": escapement.jit, "replay": lambda function: escapement.jit(function, mode="replay"),
}


def compare(function, way):
    compiled = WAYS[way](function)
    for size in (3, 2, 6, 1, 4, 3):
        x = torch.ones(size)
        ours, eager = compiled(x), function(x)
        assert torch.equal(ours[0], eager[0]) and ours[1] == eager[1] and type(ours[1]) is type(eager[1]), (size, ours[1], eager[1])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", [name for name in NUMBERS if name != "of NumPy"])   # whose truths are objects of NumPy's
@pytest.mark.parametrize("form", FORMS)
def test_a_size(form, number, way):
    compare(lambda x: (x * 2, FORMS[form](x.shape[0], NUMBERS[number])), way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", ["IntEnum", "subclass of int", "fraction"])
@pytest.mark.parametrize("form", ORDERS)
def test_an_order_and_arithmetic(form, number, way):
    compare(lambda x: (x * 2, ORDERS[form](x.shape[0], NUMBERS[number])), way)


@pytest.mark.parametrize("way", ["call", "replay"])
@pytest.mark.parametrize("number", [name for name in NUMBERS if name != "of NumPy"])
@pytest.mark.parametrize("form", ["equal", "equal, turned", "not equal", "in a tuple"])
def test_a_half_of_a_size(form, number, way):
    compare(lambda x: (x * 2, FORMS[form](x.shape[0] / 2, NUMBERS[number])), way)


@pytest.mark.parametrize("way", ["call", "replay"])
def test_a_key(way):
    compare(lambda x: (x * 2, {Channels.RGB: "colour"}.get(x.shape[0], "none")), way)


@pytest.mark.parametrize("way", ["call", "replay"])
def test_an_equality_of_its_own(way):
    compare(lambda x: (x * 2, Contrary(3) == x.shape[0]), way)


def test_images_by_their_channels():
    """A branch of the usual kind, in one frame, without a graph break."""
    def model(x):
        if x.shape[1] == Channels.RGB:
            x = x.mean(1, keepdim=True)
        return x * x.shape[1]

    compiled = torch.compile(model, backend="escapement")
    for batch, channels in ((2, 3), (5, 3), (1, 3), (2, 1), (4, 1), (0, 3), (3, 1)):
        x = torch.randn(batch, channels, 4, 4)
        torch.testing.assert_close(compiled(x), model(x))
    counters = LEDGER.counters()
    assert counters["graph_breaks"] == 0 and counters["compiles"] == 2 and escapement.stats()["launches"] > 0


@pytest.mark.parametrize("number", ["IntEnum", "IntFlag", "subclass of int", "subclass of float", "fraction", "of NumPy"])
def test_the_answer_is_a_relation(number):
    """Not a read of the size: all sizes that give the same answer share a recording."""
    jitted = escapement.jit(lambda x: x * 2 if x.shape[0] == NUMBERS[number] else x * 3)
    for size in (2, 6, 1, 5, int(NUMBERS[number]), 7, 9, int(NUMBERS[number])):
        x = torch.ones(size)
        assert torch.equal(jitted(x), x * 2 if size == NUMBERS[number] else x * 3)
    assert jitted.info()["versions"] == 2
