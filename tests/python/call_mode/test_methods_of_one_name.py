"""Jitted methods whose functions have one name, as those of a decorator have: each object keeps one of each, also when it is copied or pickled."""

import copy
import gc
import pickle
import weakref

import pytest
import torch

import escapement


def decorated(function):
    def wrapper(self, x):
        return function(self, x)

    return escapement.jit(wrapper)


class Scaled:
    k = 2.0

    a = decorated(lambda self, x: x * self.k)
    b = decorated(lambda self, x: x + self.k)
    c = decorated(lambda self, x: x - self.k)


def called(scaled):
    for n in range(2, 8):
        x = torch.ones(n)
        assert scaled.a(x).tolist() == [scaled.k] * n
        assert scaled.b(x).tolist() == [1 + scaled.k] * n
        assert scaled.c(x).tolist() == [1 - scaled.k] * n


def versions_serve(scaled):
    for method in (scaled.a, scaled.b, scaled.c):
        info = method.info()
        assert info["recordings"] == 1 and info["regions"][0]["versions"][0]["hits"] == 5 and info["eager"] == {}


def test_each_has_its_own():
    scaled = Scaled()
    called(scaled)
    versions_serve(scaled)
    assert scaled.a is scaled.a and scaled.b is scaled.b and scaled.a is not scaled.b


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))], ids=["copy", "deepcopy", "pickle"])
def test_copies_have_theirs(again):
    scaled = Scaled()
    called(scaled)
    other = scaled
    for k in (3.0, 4.0, 5.0):
        other = again(other)
        other.k = k
        called(other)
        versions_serve(other)
        assert len(vars(other)) == 4   # its own `k`, and a method each
    called(scaled)


def test_a_method_put_in_place_of_another():
    """The new one takes the old one's place in the object: nothing is kept of what is no more."""
    class Changing:
        k = 2.0

    changing = Changing()
    for n in range(2, 6):
        Changing.a = decorated(lambda self, x, n=n: x * self.k * n)
        gc.collect()
        assert changing.a(torch.ones(3)).tolist() == [2.0 * n] * 3
    assert len(vars(changing)) == 1


def test_nothing_is_left_of_an_object():
    scaled = Scaled()
    called(scaled)
    methods = [weakref.ref(method) for method in (scaled.a, scaled.b, scaled.c)]
    del scaled
    gc.collect()
    assert not any(method() for method in methods)
