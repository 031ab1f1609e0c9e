"""Tangents of torch.autograd.forward_ad: compiled code has none, so no call that may want them is served by it, whoever holds the dual tensor."""

import pytest
import torch
import torch.autograd.forward_ad as forward_ad

import escapement

X, T = torch.arange(3.0) + 1, torch.tensor([1.0, -2.0, 0.5])


def plain(x):
    return torch.sin(x) * 2


def inside(x):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(plain(forward_ad.make_dual(x, x))).tangent


class Held:
    value = X


def of_a_global(x):
    return x * Held.value


COMPILERS = {
    "call": escapement.jit, "replay": lambda function: escapement.jit(function, mode="replay"), "call, strict off": lambda function: escapement.jit(function, threads=1),
    "torch.compile": lambda function: torch.compile(function, backend="escapement"),
}


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("calls_before", [0, 1, 3])
@pytest.mark.parametrize("way", COMPILERS)
def test_a_dual_argument(way, calls_before, gradients):
    compiled = COMPILERS[way](plain)
    with torch.set_grad_enabled(gradients):
        for _ in range(calls_before):
            compiled(X)
        for _ in range(3):
            with forward_ad.dual_level():
                result = forward_ad.unpack_dual(compiled(forward_ad.make_dual(X, T)))
                torch.testing.assert_close((result.primal, result.tangent), (plain(X), 2 * torch.cos(X) * T))
            torch.testing.assert_close(compiled(X), plain(X))


@pytest.mark.parametrize("way", ["call", "replay"])
def test_a_level_inside(way):
    compiled = COMPILERS[way](inside)
    for gradients in (True, False, False):
        with torch.set_grad_enabled(gradients):
            for _ in range(3):
                torch.testing.assert_close(compiled(X), 2 * torch.cos(X) * X)


@pytest.mark.parametrize("way", ["call", "replay"])
@pytest.mark.parametrize("first", ["plain", "dual"])
def test_a_dual_global(way, first):
    compiled = COMPILERS[way](of_a_global)
    for kind in (first, "plain", "dual", "dual", "plain"):
        if kind == "plain":
            torch.testing.assert_close(compiled(X), X * X)
            continue
        with forward_ad.dual_level():
            Held.value = forward_ad.make_dual(X, T)
            torch.testing.assert_close(forward_ad.unpack_dual(compiled(X)).tangent, X * T)
        Held.value = X


def test_a_module():
    layer = torch.nn.Linear(3, 3)
    compiled = escapement.jit(layer)
    with torch.no_grad():
        compiled(X), compiled(X)
        with forward_ad.dual_level():
            torch.testing.assert_close(forward_ad.unpack_dual(compiled(forward_ad.make_dual(X, T))).tangent, layer.weight @ T)


def test_without_a_level_compiled_code_runs():
    compiled = escapement.jit(plain)
    compiled(X)
    with forward_ad.dual_level():
        compiled(X)
    before = escapement.stats().get("hits", 0)
    compiled(X), compiled(X)
    assert escapement.stats()["hits"] == before + 2 and compiled.info()["eager"] == {"torch_mode": 1}
