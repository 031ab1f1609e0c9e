"""Tensors among the arguments that the function finds elsewhere, too, and asks which of them it has; enum members among the arguments, whose methods and
attributes are the program's; state that lies deep, or in long containers."""

import collections
import enum

import pytest
import torch

import escapement

BIAS = torch.ones(2)
LAYER = torch.nn.Linear(2, 2).requires_grad_(False)


class Memo:
    def __init__(self):
        self.last, self.misses = None, 0

    def __call__(self, x):
        if x is not self.last:
            self.last, self.misses = x, self.misses + 1
        return x * self.misses


def is_global(x):
    return x * (2 if x is BIAS else 3)


def in_a_set(x):
    return x * (2 if x in {BIAS} else 3)


def any_of(x):
    return x * (2 if any(x is other for other in (BIAS, LAYER.bias)) else 3)


def by_id(x):
    return x * (2 if id(x) == id(BIAS) else 3)


def is_weight(x):
    return x * (2 if x is LAYER.weight else 3)


def in_a_callee(x):
    return x * asked(x)


def asked(x):
    return 2 if x is BIAS else 3


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("function", [is_global, in_a_set, any_of, by_id, is_weight, in_a_callee])
def test_which_tensor_it_is(function, mode):
    jitted = escapement.jit(function, mode=mode)
    for x in (BIAS, torch.ones(2), LAYER.weight, BIAS, torch.ones(3), LAYER.bias, LAYER.weight, BIAS.clone()):
        assert torch.equal(jitted(x), function(x))


@pytest.mark.parametrize("function", [is_global, in_a_set, any_of, by_id, in_a_callee])
def test_which_tensor_it_is_after_many_calls(function):
    """Served in the quick way, which is for calls without gradients."""
    jitted = escapement.jit(function)
    with torch.no_grad():
        for _ in range(30):
            jitted(torch.ones(2))
        assert torch.equal(jitted(BIAS), function(BIAS)) and torch.equal(jitted(torch.ones(2)), torch.full((2,), 3.0))


def test_a_memo():
    ours, theirs = Memo(), Memo()
    jitted = escapement.jit(ours.__call__)
    a, b = torch.ones(2), torch.ones(2)
    for x in (a, a, b, b, a, b, b, a):
        assert torch.equal(jitted(x), theirs(x)) and ours.misses == theirs.misses


def test_only_who_asks_pays():
    def function(x):
        return x @ LAYER.weight.t() + (0 if x is None else 1)

    jitted = escapement.jit(function)
    for x in (LAYER.weight, torch.ones(3, 2), LAYER.weight):
        torch.testing.assert_close(jitted(x), function(x))
    assert not jitted.info()["eager"]


SCALE, CALLS = {"k": 2.0}, [0]


class Kind(enum.Enum):
    A = 1
    B = 2

    def apply(self, x):
        CALLS[0] += 1
        return x * SCALE["k"] * self.value


class Named(str, enum.Enum):
    ONE = "one"

    def of(self, x):
        return x * SCALE["k"]


Holder = collections.namedtuple("Holder", "kind")


@pytest.mark.parametrize("make", [lambda kind: kind, lambda kind: [kind], lambda kind: Holder(kind)], ids=["alone", "in a list", "in a tuple"])
def test_methods_of_an_enum(make):
    def function(kind, x):
        kind = kind if isinstance(kind, enum.Enum) else kind[0]
        return kind.apply(x)

    jitted = escapement.jit(function)
    try:
        for call in range(10):
            SCALE["k"] = float(2 + call // 3)
            kind, before = (Kind.A, Kind.B)[call % 2], CALLS[0]
            assert torch.equal(jitted(make(kind), torch.ones(2)), torch.full((2,), SCALE["k"] * kind.value))
            assert CALLS[0] == before + 1
    finally:
        SCALE["k"] = 2.0


def test_attributes_and_texts_of_an_enum():
    jitted, texts = escapement.jit(lambda kind, x: x * kind.extra), escapement.jit(lambda kind, x: kind.of(x))
    try:
        for call in range(8):
            Kind.A.extra, SCALE["k"] = float(call // 2), float(3 + call // 2)
            assert jitted(Kind.A, torch.ones(1)).item() == call // 2 and texts(Named.ONE, torch.ones(1)).item() == 3 + call // 2
    finally:
        SCALE["k"] = 2.0
        del Kind.A.extra


@pytest.mark.parametrize("depth", [3, 9, 10, 20, 30])
def test_chains_of_calls(depth):
    space = {"COUNT": [0], "K": 2.0}
    exec("def g0(x):\n  COUNT[0] += 1\n  return x * K\n" + "".join(f"def g{i}(x): return g{i - 1}(x)\n" for i in range(1, depth)), space)
    jitted = escapement.jit(space[f"g{depth - 1}"])
    for call in range(8):
        space["K"] = float(2 + call // 2)
        assert jitted(torch.ones(1)).item() == space["K"] and space["COUNT"] == [call + 1]


@pytest.mark.parametrize("length", [10, 257, 300, 5000])
def test_counts_in_long_containers(length):
    visits, queue = [0] * length, dict.fromkeys(range(length), 0)

    def function(x, at):
        visits[at] += 1
        queue[at] = queue.get(at, 0) + 1
        return x / visits[at]

    jitted = escapement.jit(function)
    for call in range(1, 8):
        assert jitted(torch.ones(1), length - 1).item() == pytest.approx(1 / call)
        assert visits[length - 1] == queue[length - 1] == call
