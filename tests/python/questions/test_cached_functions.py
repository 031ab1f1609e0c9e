"""functools.lru_cache and functools.cache in a program: what they hand out is one object from then on, with what the program does to it, until somebody clears them.

Through torch.compile and in both modes of escapement.jit.
"""

import functools

import pytest
import torch

import escapement
from escapement.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh")


class State:
    def __init__(self):
        self.count, self.log = 0, []


@functools.cache
def single():
    return State()


@functools.lru_cache
def buffer(n):
    return torch.zeros(n)


@functools.lru_cache
def noise(n):
    return torch.randn(n)


@functools.lru_cache(maxsize=1)
def few(n):
    return torch.randn(n)


@functools.lru_cache(maxsize=0)
def none_kept(n):
    return torch.ones(n)


@functools.cache
def truth():
    return True


@functools.cache
def number(k=3):
    return k * 2


@functools.cache
def a_list():
    return [1, 2]


@functools.cache
def a_tuple():
    return 1, 2.5, "a"


@functools.cache
def a_dict():
    return {"a": torch.ones(2), "n": 1}


@functools.cache
def dtype(name):
    return getattr(torch, name)


@functools.cache
def function():
    return torch.relu


@functools.cache
def module():
    torch.manual_seed(3)
    return torch.nn.Linear(3, 3)


@functools.cache
def fails():
    raise ValueError("no")


@functools.cache
def leaf():
    return torch.ones(3, requires_grad=True)


@functools.cache
def generator():
    return torch.Generator().manual_seed(1)


@functools.lru_cache
def positions(n, width):
    table = torch.zeros(n, width)
    table[:, 0::2] = torch.sin(torch.arange(n)[:, None] * 0.1)
    return table, n


class Masking(torch.nn.Module):
    @functools.lru_cache   # noqa: B019
    def mask(self, n):
        return torch.ones(n)

    @functools.cache   # noqa: B019
    def counted(self):
        self.count = getattr(self, "count", 0) + 1
        return self.count

    def forward(self, x):
        return x * self.mask(3) * self.counted()


MODEL = Masking()
ALL = single, buffer, noise, few, none_kept, truth, number, a_list, a_tuple, a_dict, dtype, function, module, fails, leaf, generator, positions, Masking.mask, Masking.counted


def object_changed(x):
    single().count = single().count + 1
    return x * single().count


def list_of_object_changed(x):
    single().log.append(1)
    return x * len(single().log)


def list_changed(x):
    a_list().append(3)
    return x * len(a_list())


def dict_changed(x):
    a_dict()["n"] = a_dict()["n"] + 1
    return x * a_dict()["n"]


def caught(x):
    try:
        return x * fails()
    except ValueError:
        return x * 5


def cleared(x):
    result = x * buffer(3).sum()
    buffer.cache_clear()
    return result


def without_gradients(x):
    with torch.no_grad():
        return x * buffer(4).sum()


PROGRAMS = {
    "an object, changed": object_changed,
    "a list of an object, changed": list_of_object_changed,
    "a tensor, written": lambda x: buffer(3).add_(x.sum(0)) * 2,
    "a tensor by keyword": lambda x: buffer(n=3).add_(x.sum(0)) * 2,
    "random numbers": lambda x: x + noise(3),
    "random numbers of a size": lambda x: x.sum(1) + noise(x.shape[0]),
    "few are kept": lambda x: x + few(3) + few(1),
    "none are kept": lambda x: x + none_kept(3).add_(1),
    "a truth": lambda x: x * 2 if truth() else x,
    "a number": lambda x: x * number(),
    "a number by keyword": lambda x: x * number(k=4),
    "a list, changed": list_changed,
    "a tuple": lambda x: x * a_tuple()[1],
    "a dict, changed": dict_changed,
    "a dtype": lambda x: x.to(dtype("float64")),
    "a function": lambda x: function()(x),
    "a module": lambda x: module()(x),
    "an exception": caught,
    "wants a gradient": lambda x: x * leaf(),
    "a generator": lambda x: x + torch.randn(3, generator=generator()),
    "methods": lambda x: MODEL(x),
    "of a size": lambda x: x.sum(1) * buffer(x.shape[0]).shape[0],
    "a table of a size": lambda x: x @ torch.ones(3, 4) + positions(x.shape[0], 4)[0],
    "of a size, written": lambda x: buffer(x.shape[0]).add_(1).sum() + x,
    "cleared inside": cleared,
    "the same object": lambda x: x * (single() is single()),
    "without gradients": without_gradients,
    "of another's result": lambda x: x * number(number(1)),
    "what is inside": lambda x: x * number.__wrapped__(2),
}
ONE_GRAPH = ("a tensor, written", "a tensor by keyword", "random numbers", "a truth", "a number", "a number by keyword", "a tuple", "a dtype", "a function", "a module",
             "wants a gradient", "a table of a size", "the same object", "without gradients", "of another's result")
WAYS = {
    "torch.compile": lambda program: torch.compile(program, backend="escapement"),
    "call mode": escapement.jit,
    "replay mode": lambda program: escapement.jit(program, mode="replay"),
}


def answers(run):
    for cached in ALL:
        cached.cache_clear()
    MODEL.__dict__.pop("count", None)
    torch.manual_seed(0)
    found = []
    for call, size in enumerate((2, 3, 2, 1, 5, 3, 3, 0)):
        if call == 4:    # others use them too
            single().count += 5
            buffer(3).add_(2)
        elif call == 5:
            buffer.cache_clear()
            noise.cache_clear()
        found.append(run(torch.arange(size * 3.0).view(size, 3)).detach().clone())
    return [*found, torch.rand(1)]


CASES = [(name, way) for name in PROGRAMS for way in WAYS if (name, way) != ("of a size, written", "torch.compile")]   # leftovers.md


@pytest.mark.parametrize(("name", "way"), CASES)
def test_what_is_handed_out(name, way):
    eager = answers(PROGRAMS[name])
    torch.testing.assert_close(answers(WAYS[way](PROGRAMS[name])), eager, rtol=1e-5, atol=1e-6)
    if way == "torch.compile" and name in ONE_GRAPH:
        seen = LEDGER.counters()
        assert (seen["compiles"], seen["graph_breaks"], seen["refused_calls"], seen["skipped_frames"]) == (1, 0, 0, 0)


def test_how_often_it_was_asked():
    """A call in a compiled program counts as a call."""
    def body(x):
        return x * number(11)

    compiled = torch.compile(body, backend="escapement")
    number.cache_clear()
    for size in (3, 5, 1):
        compiled(torch.ones(size))
    assert number.cache_info().misses == 1


def test_it_is_called_outside_of_the_trace():
    """What it makes is a tensor, not the tracer's stand-in for one."""
    buffer.cache_clear()
    torch.compile(lambda x: x + buffer(2), backend="escapement")(torch.ones(4, 2))
    assert type(buffer(2)) is torch.Tensor and buffer(2).tolist() == [0.0, 0.0]
