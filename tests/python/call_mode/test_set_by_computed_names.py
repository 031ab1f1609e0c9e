"""Attributes that are set, deleted or got by names that stand nowhere in the code: all count, of objects, thread locals and Python modules of the program's own."""

import operator
import sys
import threading
import types
from operator import attrgetter as getter

import pytest
import torch

import escapement

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]
KEYS, settings, here = ["scale"], types.ModuleType("settings_of_this_test"), threading.local()


class Own:
    scale = 1.0

    def on_scaled(self, x):
        return x * self.scale

    def __setattr__(self, name, value):
        super().__setattr__(name, value)


own, holder = Own(), Own()
holder.inner = own


def set_by(put):
    def run(x):
        for key in KEYS:
            put(key)
        return x + 1
    return run


WRITING = {
    "setattr": (set_by(lambda key: setattr(own, key, 0.0)), own), "of C": (set_by(lambda key: object.__setattr__(own, key, 0.0)), own), "method": (set_by(lambda key: own.__setattr__(key, 0.0)), own),
    "of a module": (set_by(lambda key: setattr(settings, key, 0.0)), settings), "of a thread": (set_by(lambda key: setattr(here, key, 0.0)), here), "delattr": (set_by(lambda key: delattr(own, key)), own),
}


@pytest.mark.parametrize("name", WRITING)
@torch.no_grad()
def test_it_is_set_at_every_call(name):
    run, owner = WRITING[name]
    function, seen = escapement.jit(run), []
    for call in (function, run):
        seen.append([])
        for i in (0.0, 1.0, 2.0, 0.0, 3.0):
            owner.scale = i
            call(torch.ones(3))
            seen[-1].append(getattr(owner, "scale", None))
    assert seen[0] == seen[1]


READING = {
    "attrgetter": (lambda x: x * operator.attrgetter(KEYS[0])(own), own), "path": (lambda x: x * operator.attrgetter(".".join(["inner", *KEYS]))(holder), own),
    "methodcaller": (lambda x: operator.methodcaller("on_" + KEYS[0] + "d", x)(own), own), "alias": (lambda x: x * getter(KEYS[0])(own), own),
    "of a module": (lambda x: x * getattr(settings, KEYS[0]), settings), "of a thread": (lambda x: x * getattr(here, KEYS[0]), here),
}


@pytest.mark.parametrize("name", READING)
@torch.no_grad()
def test_each_change_is_noticed(name):
    read, owner = READING[name]
    owner.scale = 1.0
    function = escapement.jit(read)
    for scale in (2.0, 3.0, 2.0, 0.5):
        owner.scale = scale
        for size in (3, 1, 0, 7):
            assert function(torch.ones(size)).tolist() == [scale] * size
    info = function.info()
    assert info["recordings"] <= 3 and not info["eager"] and sum(version["hits"] for region in info["regions"] for version in region["versions"]) >= 4, info


class Passing:
    """Its own words for setting pass on names that stand in other code."""

    def __init__(self):
        self.calls, self.width = 0, 2.0

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)

    def run(self, x):
        return x * self.width


@torch.no_grad()
def test_names_that_are_passed_on_are_not_any():
    passing = Passing()
    function = escapement.jit(passing.run)
    for call in range(8):
        passing.calls = call
        assert function(torch.ones(call)).tolist() == [2.0] * call
    assert function.info()["recordings"] <= 2 and not function.info()["eager"], function.info()
    assert sys.modules[__name__].settings is settings
