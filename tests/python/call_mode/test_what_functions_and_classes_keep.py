"""State that a program keeps on its functions and classes: attributes of a compiled function, of one behind a decorator of a library, of a class among the
arguments, and methods that are compiled, whose object is copied or whose class says something else later."""

import contextlib
import copy
import functools

import pytest
import torch

import escapement

SIZES = (2, 3, 1, 5, 4, 2, 7)


def with_attribute(compiled):
    @compiled
    def f(x):
        return x * f.factor

    f.factor = 1
    return f, lambda n: setattr(f, "factor", n)


def counting(compiled):
    @compiled
    def f(x):
        f.calls += 1
        return x * 2 + f.calls

    f.calls = 0
    return f, lambda n: None


def made_once(compiled):
    @compiled
    def f(x):
        if not hasattr(f, "scale"):
            f.scale = torch.full((1,), 2.0)
        return x * f.scale

    def change(n):
        if n == 5:
            del f.scale
        elif n > 2:
            f.scale = torch.full((1,), float(n))

    return f, change


def another_one(compiled):
    @compiled
    def g(x):
        return x + g.offset

    g.offset = 1
    return compiled(lambda x: g(x) * 2), lambda n: setattr(g, "offset", n)


def behind(decorate):
    def make(compiled):
        @decorate
        def g(x):
            return x * g.factor

        g.factor = 2
        return compiled(lambda x: g(x) + 1), lambda n: setattr(g, "factor", n)

    return make


def context(function):
    @contextlib.contextmanager
    def entered():
        yield entered.factor

    def call(x):
        with entered() as factor:
            return x * factor

    call.entered = entered
    return call


def behind_a_context(compiled):
    call = context(None)
    call.entered.factor = 1
    return compiled(call), lambda n: setattr(call.entered, "factor", n)


class Settings:
    factor = 1


def a_class(compiled, wrap=lambda kind: kind, unwrap=lambda given: given):
    kind = type("Own", (Settings,), {})
    f = compiled(lambda x, given: x * unwrap(given).factor)
    return lambda x: f(x, wrap(kind)), lambda n: setattr(kind, "factor", n)


def a_class_method(compiled):
    class Own:
        factor, calls = 1, 0

        @classmethod
        @compiled
        def f(cls, x):
            cls.calls += 1
            return x * cls.factor + cls.calls

    return lambda x: Own.f(x), lambda n: setattr(Own, "factor", n)


PROGRAMS = {
    "an attribute": with_attribute, "a count": counting, "made once": made_once, "of another one": another_one, "behind no_grad": behind(torch.no_grad()),
    "behind singledispatch": behind(functools.singledispatch), "behind wraps": behind(lambda f: functools.wraps(f)(lambda x: f(x))),
    "behind a context manager": behind_a_context, "a class": a_class, "a class in a list": functools.partial(a_class, wrap=lambda kind: [kind], unwrap=lambda given: given[0]),
    "a class in a dict": functools.partial(a_class, wrap=lambda kind: {"own": kind}, unwrap=lambda given: given["own"]), "a class method": a_class_method,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_state_of_functions_and_classes(name):
    with torch.no_grad():
        (ours, change), (eager, change_too) = PROGRAMS[name](escapement.jit), PROGRAMS[name](lambda f: f)
        for n in SIZES:
            x = torch.arange(float(n))
            torch.testing.assert_close(ours(x), eager(x))
            change(n), change_too(n)


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    @escapement.jit
    def scale(self, x):
        return x * self.factor


class ScaledLayer(torch.nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    @escapement.jit
    def forward(self, x):
        return x * self.factor

    scale = forward


@pytest.mark.parametrize("kind", (Scaled, ScaledLayer))
def test_a_copy_has_methods_of_its_own(kind):
    with torch.no_grad():
        first = kind(2)
        first.scale(torch.ones(3))
        for other in (copy.copy(first), copy.deepcopy(first)):
            other.factor = 5
            for n in SIZES:
                assert torch.equal(other.scale(torch.ones(n)), torch.full((n,), 5.0)) and torch.equal(first.scale(torch.ones(n)), torch.full((n,), 2.0))
        other = kind(7)
        other.__dict__.update({**first.__dict__, "factor": 3})
        assert torch.equal(other.scale(torch.ones(2)), torch.full((2,), 3.0)) and torch.equal(first.scale(torch.ones(2)), torch.full((2,), 2.0))


def test_what_a_class_says_later():
    class Own(Scaled):
        @escapement.jit
        def scale(self, x):
            return x * self.factor + 1

    with torch.no_grad():
        made = Own(2)
        assert torch.equal(made.scale(torch.ones(3)), torch.full((3,), 3.0))
        made.scale, kept = (lambda x: x * 0), made.scale
        assert torch.equal(made.scale(torch.ones(3)), torch.zeros(3)) and torch.equal(kept(torch.ones(2)), torch.full((2,), 3.0))
        del made.scale
        Own.scale = lambda self, x: x * 100
        assert torch.equal(made.scale(torch.ones(3)), torch.full((3,), 100.0))
        del Own.scale
        assert torch.equal(made.scale(torch.ones(4)), torch.full((4,), 2.0))
        made.__class__ = type("Other", (Scaled,), {"scale": lambda self, x: x * 9})
        assert torch.equal(made.scale(torch.ones(3)), torch.full((3,), 9.0))
