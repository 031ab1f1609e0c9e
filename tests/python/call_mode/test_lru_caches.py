"""functools.lru_cache in compiled functions: what a recording put there, later calls find, eager ones among them. BODIES x CACHES x CALLS, in calls of the
compiled function and of the function itself in turn."""

import dataclasses
import functools
import types

import pytest
import torch
from answered import outcome

import escapement

pytestmark = pytest.mark.usefixtures("fresh")


@dataclasses.dataclass(frozen=True)
class Key:
    n: int


def number(n):
    return n.n if isinstance(n, Key) else n[0] if isinstance(n, tuple) else n


BODIES = {
    "int": lambda n: n * 2, "tensor": lambda n: torch.ones(n) * 2, "arange": lambda n: torch.arange(n, dtype=torch.float32), "tuple": lambda n: (n + 1, torch.full((n,), 2.0)),
    "list": lambda n: [n, [n * 3]], "dict": lambda n: {"n": n, "t": torch.zeros(n)}, "text": lambda n: f"{n}", "size": lambda n: torch.Size([n, 2]),
    "range": lambda n: range(n), "slice": lambda n: slice(0, n), "half": lambda n: n / 2, "comparison": lambda n: n > 2, "mask": lambda n: torch.tril(torch.ones(n, n)),
    "function": lambda n: lambda: n, "partial": lambda n: functools.partial(int.__add__, n),
}
CACHES = {"all": functools.lru_cache(None), "128": functools.lru_cache(128), "typed": functools.lru_cache(128, typed=True)}
CALLS = {
    "size": lambda c, x, k: c(x.shape[0]), "size and text": lambda c, x, k: c(x.shape[0], "a"), "int": lambda c, x, k: c(k), "int and text": lambda c, x, k: c(k, "a"),
    "keyword": lambda c, x, k: c(n=x.shape[0]), "expression": lambda c, x, k: c(x.shape[0] + 1, 0), "item": lambda c, x, k: c(int(x.sum().item()), 0),
    "shape": lambda c, x, k: c(x.shape), "pair": lambda c, x, k: c((x.shape[0], k), 1), "object": lambda c, x, k: c(Key(x.shape[0]), 1),
}


def used(v, x):
    if isinstance(v, torch.Tensor):
        return x * v.sum()
    if isinstance(v, bool):
        return x * (2.0 if v else 3.0)
    if isinstance(v, (int, float)):
        return x * v
    if isinstance(v, (str, range)):
        return x * len(v)
    if isinstance(v, slice):
        return x[v] * v.stop
    if isinstance(v, (dict, tuple, list)):
        return functools.reduce(lambda x, part: used(part, x), v.values() if isinstance(v, dict) else v, x)
    return x * (v(1) if isinstance(v, functools.partial) else v())


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("cache", CACHES)
def test_later_calls_find_numbers(body, cache, mode):
    for name, call in CALLS.items():
        def made():
            cached = CACHES[cache](lambda n, *rest: BODIES[body](number(n)))
            return lambda x, k: used(call(cached, x, k), x)

        eager, program = made(), made()
        jitted = escapement.jit(program, mode=mode)
        with torch.no_grad():
            for i, n in enumerate((3, 1, 4, 2, 3, 4, 5, 3, 4, 1)):
                wanted, found = outcome(eager, torch.ones(n), n), outcome(program if i % 3 == 2 else jitted, torch.ones(n), n)
                assert wanted is found or type(found) is torch.Tensor and torch.equal(wanted, found), (name, i, n, wanted, found)


FACTOR = 2


@functools.lru_cache(None)
def by_a_global(n):
    return n * FACTOR


def kept(n, given=[0]):
    given[0] += 1
    return n * given[0]


def test_what_a_cache_has_kept_is_what_it_gives():
    """A function that reads more than its arguments gives what it gave, in eager too, so that it is asked with the number itself."""
    global FACTOR
    for body in (lambda n: n * FACTOR, kept, lambda n: [n], lambda n: torch.full((2,), n)):
        wanted = functools.lru_cache(None)(types.FunctionType(body.__code__, globals(), "own", body.__defaults__, body.__closure__))
        cached = functools.lru_cache(None)(types.FunctionType(body.__code__, globals(), "own", body.__defaults__ and ([0],), body.__closure__))
        jitted = escapement.jit(lambda x: used(cached(x.shape[0]), x))   # noqa: B023
        with torch.no_grad():
            for factor, n in ((2, 3), (2, 4), (3, 3), (3, 5), (4, 4), (4, 5), (2, 3), (5, 6)):
                FACTOR = factor
                if body is kept:
                    assert (jitted(torch.ones(n)) == jitted(torch.ones(n))).all()
                else:
                    torch.testing.assert_close(jitted(torch.ones(n)), used(wanted(n), torch.ones(n)))
    FACTOR = 2


@functools.lru_cache(None)
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + other_fibonacci(n - 2)


def other_fibonacci(n):
    return fibonacci(n)


def test_a_function_that_asks_itself_wants_its_cache():
    jitted = escapement.jit(lambda x: x * fibonacci(x.shape[0]))
    for n in (60, 61, 62, 60):
        torch.testing.assert_close(jitted(torch.ones(n)), torch.ones(n) * fibonacci(n))


@functools.lru_cache(None)
def halvings(n):
    count = 0
    while n > 1:
        n, count = n // 2, count + 1
    return count


def test_a_function_that_loops_until_is_asked_with_numbers():
    """A relation for each round would be a guard for each."""
    jitted = escapement.jit(lambda x: x * halvings(x.shape[0]))
    for n in (60, 61, 7, 60):
        torch.testing.assert_close(jitted(torch.ones(n)), torch.ones(n) * halvings(n))
    assert all(len(version["guards"]) <= 2 for region in jitted.info()["regions"] for version in region["versions"])
