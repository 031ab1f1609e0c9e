"""Attributes that code in C reads: to write an object into a text, to compare it with another, to keep it in a file."""

import copy
import types
from dataclasses import asdict as as_dict
from dataclasses import dataclass
from pickle import dumps as write

import pytest
import torch

import escapement

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]
SHOWN = "{0.zoom}"


class Own:
    def __init__(self):
        self.zoom, self.inner = 1, None


@dataclass
class Data:
    zoom: int = 1


space, equal, own, data, words, around = types.SimpleNamespace(zoom=1), types.SimpleNamespace(zoom=100), Own(), Data(), SHOWN, Own()
around.inner = own

# name -> (what is read, whose attribute)
READING = {
    "repr": (lambda: len(repr(space)), space), "str": (lambda: len(str(space)), space), "f-string": (lambda: len(f"{space}"), space), "percent": (lambda: len("%s" % (space,)), space),
    "equal": (lambda: 1 + (space == equal), space), "unequal": (lambda: 1 + (equal != space), space), "in": (lambda: 1 + (space in [equal]), space),
    "format": (lambda: len("{0.zoom}".format(own)), own), "named": (lambda: len("{c.zoom:d}".format(c=own)), own), "deep": (lambda: len("{0.inner.zoom!r}".format(around)), own),
    "width": (lambda: len("{0:{1.zoom}}".format(3, own)), own), "global": (lambda: len(words.format(own)), own), "pickle": (lambda: len(write(own)), own), "asdict": (lambda: as_dict(data)["zo" + "om"], data),
    "copied": (lambda: copy.copy(space).zoom, space),
}


@pytest.mark.parametrize("name", READING)
@torch.no_grad()
def test_each_change_is_noticed(name):
    read, owner = READING[name]
    function = escapement.jit(lambda x: x * read())
    for zoom in (1, 100, 1, 30000):
        owner.zoom = zoom
        for size in (3, 1, 0, 7):
            assert function(torch.ones(size)).tolist() == [read()] * size
    info = function.info()
    assert info["recordings"] <= 4 and not info["eager"] and sum(version["hits"] for region in info["regions"] for version in region["versions"]) >= 4, info


state = types.SimpleNamespace(zoom=2, calls=0, lines=iter("ab"))


def counts(x):
    return x * state.zoom if x.dim() == 1 and x.shape[0] != 9 else x


def says(x):
    assert x.dim() == 1, "{not a field"
    return x * state.zoom + (len("{}".format(3)) - 1) + 0 * len('{"json": 1}')


def writes(x):
    return (x * state.zoom, f"{x.dtype} of {state.zoom}", [x.dim()] == [1])[0]


@pytest.mark.parametrize("function", [counts, says, writes])
@torch.no_grad()
def test_what_is_not_read_costs_nothing(function):
    compiled = escapement.jit(function)
    for call in range(6):
        state.calls = 0 if function is says else call
        assert compiled(torch.ones(call)).tolist() == [2.0] * call
    info = compiled.info()
    assert info["recordings"] <= 2 and not info["eager"], info
