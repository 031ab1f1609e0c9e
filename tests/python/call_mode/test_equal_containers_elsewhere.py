"""A list or dict elsewhere takes the place of one with equal contents, and is also an argument: then what the function does to one it does to the other. While it
is none of the arguments, versions go on serving."""

import collections
import random
import types

import pytest
import torch

import escapement
from escapement.tracer.jitted import Jitted


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.weight = [1, 2], torch.nn.Parameter(torch.ones(1), requires_grad=False)

    def forward(self, x, given):
        given.append(3)
        found = x * self.weight + len(self.tokens)
        given.pop()
        return found


def attribute(s):
    def run(x, given):
        given.append(3)
        found = x + len(s.tokens)
        given.pop()
        return found

    return run, lambda made: setattr(s, "tokens", made), lambda: s.tokens


def asked(s):
    return lambda x, given: x + (2 if given is s.tokens else 3), lambda made: setattr(s, "tokens", made), lambda: s.tokens


def beside_a_tensor(s):
    s.bias = torch.ones(1)

    def run(x, given):
        given.append(3)
        found = x + s.bias * len(s.tokens)
        given.pop()
        return found

    return run, lambda made: setattr(s, "tokens", made), lambda: s.tokens


def in_a_dict(s):
    store = {"tokens": [1, 2]}

    def run(x, given):
        store.setdefault("tokens", given)
        given.append(3)
        found = x + len(store["tokens"])
        given.pop()
        return found

    return run, lambda made: store.update(tokens=made), lambda: store["tokens"]


def within(outer, inner):
    def program(s):
        def put(made):
            s.held = outer(made)

        def run(x, given):
            given.append(3)
            found = x + len(inner(s.held))
            given.pop()
            return found

        put([1, 2])
        return run, put, lambda: inner(s.held)

    return program


def in_the_same(outer, key):
    """Another one comes into the container, which stays."""
    def program(s):
        s.held = outer

        def run(x, given):
            given.append(3)
            found = x + len(s.held[key])
            given.pop()
            return found

        return run, lambda made: s.held.__setitem__(key, made), lambda: s.held[key]

    return program


def closure(s):
    tokens = [1, 2]

    def put(made):
        nonlocal tokens
        tokens = made

    def run(x, given):
        given.append(3)
        found = x + len(tokens)
        given.pop()
        return found

    return run, put, lambda: tokens


def default(s):
    def run(x, given, tokens=[1, 2]):
        given.append(3)
        found = x + len(tokens)
        given.pop()
        return found

    def put(made):
        run.__defaults__ = (made,)

    return run, put, lambda: run.__defaults__[0]


def of_a_module(s):
    layer = Layer()
    return layer, lambda made: setattr(layer, "tokens", made), lambda: layer.tokens


PROGRAMS = {
    "attribute": attribute, "asked": asked, "beside a tensor": beside_a_tensor, "in a dict": in_a_dict, "closure": closure, "default": default, "of a module": of_a_module,
    "in the same list": in_the_same([[1, 2]], 0), "in the same ordered dict": in_the_same(collections.OrderedDict(a=[1, 2]), "a"),
    "in the same dict of its own": in_the_same(type("Own", (dict,), {})(a=[1, 2]), "a"), "in the same queue": in_the_same(collections.deque([[1, 2]], maxlen=2), 0),
    "in a tuple": within(lambda made: (made, 1), lambda held: held[0]), "in a list": within(lambda made: [[made]], lambda held: held[0][0]),
    "in a queue": within(lambda made: collections.deque([made]), lambda held: held[0]), "deep": within(lambda made: {"a": ({"b": made},)}, lambda held: held["a"][0]["b"]),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PROGRAMS)
def test_lists(name, seed):
    run, put, found = PROGRAMS[name](types.SimpleNamespace(tokens=[1, 2]))
    jitted, drawn = escapement.jit(run), random.Random(seed)
    for _ in range(60):
        given, x, way = [1, 2], torch.ones(drawn.randrange(2, 9)), drawn.randrange(4)
        if way == 0:
            put(given)
        elif way == 1:
            put([1, 2])
        elif way == 2:
            given = found()
        assert torch.equal(jitted(x, given), run(x, given))
    info = jitted.info()
    assert set(info["eager"]) == {"argument_elsewhere"} and info["recordings"] == 1
    assert sum(version["hits"] for region in info["regions"] for version in region["versions"]) > 20


@pytest.mark.parametrize("make", [lambda: {"n": 0}, lambda: collections.OrderedDict(n=0), lambda: collections.deque([1, 2]), lambda: [[1], [2]]],
                         ids=["dict", "ordered", "queue", "nested"])
def test_other_containers(make):
    s = types.SimpleNamespace(held=make())

    def run(x, given):
        given.update(m=1) if isinstance(given, dict) else given.append(3)
        return x + len(s.held)

    jitted = escapement.jit(run)
    for shared in (False, False, True, True, False, True):
        s.held = make()
        assert jitted(torch.zeros(2), s.held if shared else make()).tolist() == [len(make()) + shared] * 2
        assert len(s.held) == len(make()) + shared


def test_the_function_puts_it_there():
    store = {}

    def run(x, given):
        store.setdefault("given", given)
        given.append(3)
        return x + len(store["given"])

    jitted = escapement.jit(run)
    for n in range(6):
        given = [1, 2]
        assert jitted(torch.zeros(2), given).tolist() == [3.0, 3.0] and store["given"] is given and given == [1, 2, 3]
        store.clear()


def test_the_quick_way_stays(monkeypatch):
    """What lies elsewhere is asked by the core, while it is the same."""
    s = types.SimpleNamespace(sizes=[1, 2], names={"a": [2]})
    jitted, came = escapement.jit(lambda xs: xs[0] * len(s.sizes) + s.names["a"][0]), []
    expected = lambda n: [4.0] * n
    assert all(jitted([torch.ones(n)]).tolist() == expected(n) for n in (2, 3, 4))
    before, call = jitted.info(), Jitted._call
    monkeypatch.setattr(Jitted, "_call", lambda self, args, kwargs: came.append(args) or call(self, args, kwargs))
    assert all(jitted([torch.ones(n)]).tolist() == expected(n) for n in range(2, 8)) and came == []
    s.sizes = [1, 2]
    assert jitted([torch.ones(2)]).tolist() == expected(2) and len(came) <= 1   # none where the list lies where another one did, which no argument may be either
    s.names["a"] = [5]
    assert jitted([torch.ones(2)]).tolist() == [7.0, 7.0]
    assert before["recordings"] == 1 and jitted.info()["recordings"] == 2 and jitted.info()["eager"] == {}
