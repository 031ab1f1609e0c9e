"""Parameters may have any names, also those that our own functions use."""

import pytest
import torch

import escapement

NAMES = ["self", "fn", "args", "table", "entry", "leaves", "cached", "instance", "options"]


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("name", NAMES)
def test_given_by_name(name, mode):
    space = {}
    exec(f"def run(x, {name}):\n    return x * {name}", space)
    jitted = escapement.jit(space["run"], mode=mode)
    for n in range(2, 6):
        assert jitted(torch.ones(n), **{name: 2.0}).tolist() == [2.0] * n
    info = jitted.info()
    assert info["recordings"] == 1 and (mode == "replay" or info["eager"] == {})
    if mode == "call":
        assert info["regions"][0]["versions"][0]["hits"] == 3


@pytest.mark.parametrize("mode", ["call", "replay"])
def test_of_any_keywords(mode):
    jitted = escapement.jit(lambda **given: given["self"] * given["args"], mode=mode)
    for n in range(2, 6):
        assert jitted(self=torch.ones(n), args=n).tolist() == [float(n)] * n


def test_cached_functions():
    import functools

    @functools.lru_cache
    def grown(n, cached):
        return n + cached

    jitted = escapement.jit(lambda x: x * grown(x.shape[0], cached=2))
    for n in range(2, 6):
        assert jitted(torch.ones(n)).tolist() == [n + 2.0] * n
    assert jitted.info()["recordings"] == 1 and jitted.info()["eager"] == {}
