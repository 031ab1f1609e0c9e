"""Attributes that Python code has put on a tensor are the program's to ask for, also where there were none when it was recorded."""

import collections
import types

import pytest
import torch

import escapement

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]

Pair = collections.namedtuple("Pair", "x y")


class Net(torch.nn.Module):
    def forward(self, x):
        return x * self.gain(x)

    def gain(self, x):
        return x.gain if hasattr(x, "gain") else 1.0


ASKING = {
    "default": lambda x: x * getattr(x, "gain", 1.0), "has": lambda x: x * (x.gain if hasattr(x, "gain") else 1.0), "computed": lambda x: x * getattr(x, "".join(["ga", "in"]), 1.0),
    "vars": lambda x: x * vars(x).get("gain", 1.0), "dict": lambda x: x * (3.0 if "gain" in x.__dict__ else 1.0), "module": Net(), "copied": lambda x: (x + 0) * x.__dict__.get("gain", 1.0),
}
CARRIED = {
    "argument": (lambda f: f, lambda x: ((x,), {})), "keyword": (lambda f: lambda *, x: f(x), lambda x: ((), {"x": x})), "second": (lambda f: lambda y, x: f(x) + y, lambda x: ((torch.ones(()), x), {})),
    "list": (lambda f: lambda xs: f(xs[1]), lambda x: (([torch.ones(2), x],), {})), "dict": (lambda f: lambda xs: f(xs["x"]), lambda x: (({"x": x},), {})), "tuple": (lambda f: lambda xs: f(xs[0]), lambda x: (((x, 3),), {})),
    "named tuple": (lambda f: lambda xs: f(xs.x), lambda x: ((Pair(x, 2.0),), {})), "object": (lambda f: lambda o: f(o.x), lambda x: ((types.SimpleNamespace(x=x),), {})),
}


def tensor(size, gain, parameter=False):
    x = torch.nn.Parameter(torch.ones(size), requires_grad=False) if parameter else torch.ones(size)
    if gain:
        x.gain = float(gain)
    return x


@pytest.mark.parametrize("parameter", [False, True])
@pytest.mark.parametrize("carried", CARRIED)
@pytest.mark.parametrize("asking", ASKING)
@torch.no_grad()
def test_what_stands_on_an_argument_is_read(asking, carried, parameter):
    wrap, arguments = CARRIED[carried]
    program = wrap(ASKING[asking])
    function = escapement.jit(program)
    for call in range(30):
        size, gain = call % 4, (0, 0, 2, 0, 5)[call % 5]
        args, named = arguments(tensor(size, gain, parameter))
        again, named_again = arguments(tensor(size, gain, parameter))
        assert torch.equal(function(*args, **named), program(*again, **named_again)), call
    assert function.info()["eager"] == {"argument_attributes": 12}, function.info()   # the others are compiled


@torch.no_grad()
def test_what_nobody_asks_for_costs_no_recording():
    function = escapement.jit(lambda x: x * 2)
    for call in range(40):
        assert torch.equal(function(tensor(call % 4, call % 3)), torch.ones(call % 4) * 2)
    assert function.info()["recordings"] == 1 and not function.info()["eager"]
    assert sum(version["hits"] for version in function.info()["regions"][0]["versions"]) == 39


@pytest.mark.parametrize("depth", [3, 60, 70, 300, 900])
def test_arguments_that_are_nested_deep(depth):
    def program(x, nested):
        while isinstance(nested, list):
            nested = nested[0]
        return x * nested

    nested = 2.0
    for _ in range(depth):
        nested = [nested]
    function = escapement.jit(program)
    for size in (3, 1, 0, 7):
        assert torch.equal(function(torch.ones(size), nested), torch.ones(size) * 2)
    assert function.info()["eager"] == ({"unsupported_argument": 4} if depth > 64 else {})
