"""Functions that switch gradients off themselves, called with gradients on: compiled, and what they give wants no gradient, as eagerly. (All ran eagerly.)"""
import pytest
import torch

import escapement

NET = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 4))


@torch.no_grad()
def plain(x):
    return NET(x) * 2


@torch.no_grad
def without_brackets(x):
    return NET(x) * 2


@torch.inference_mode()
def inference(x):
    return NET(x) * 2


@torch.autocast("cpu", enabled=False)
@torch.no_grad()
def two_contexts(x):
    return NET(x) * 2


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = NET

    def forward(self, x):
        return self.net(x)

    @torch.no_grad()
    def generate(self, x, steps: int = 3):
        for _ in range(steps):
            x = x + self(x).softmax(-1)
        return x


FUNCTIONS = {"no_grad": plain, "no brackets": without_brackets, "inference_mode": inference, "two contexts": two_contexts, "method": Model().generate}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("wanted", [False, True], ids=["parameters", "arguments too"])
def test_compiled(name, wanted):
    function = FUNCTIONS[name]
    jitted = escapement.jit(function)
    for rows in (3, 5, 1, 7):
        x = torch.randn(rows, 4, requires_grad=wanted)
        ours, eagers = jitted(x), function(x)
        torch.testing.assert_close(ours, eagers)
        assert (ours.requires_grad, ours.is_inference(), torch.is_grad_enabled()) == (eagers.requires_grad, eagers.is_inference(), True)
    info = jitted.info()
    assert not info["eager"] and info["recordings"] == 1, info


def test_gradients_that_are_wanted():
    @torch.inference_mode(False)
    def function(x):
        return NET(x)

    jitted = escapement.jit(function)
    result = jitted(torch.randn(3, 4))
    assert result.requires_grad and jitted.info()["eager"] == {"gradient": 1}


def test_mixed_calls():
    jitted = escapement.jit(plain)
    x = torch.randn(3, 4)
    for on in (True, False, True, True, False):
        with torch.set_grad_enabled(on):
            torch.testing.assert_close(jitted(x), plain(x))
    assert not jitted.info()["eager"]


def test_an_exception_leaves_gradients_on():
    @torch.no_grad()
    def function(x):
        assert x.shape[0] != 5, "five"
        return NET(x)

    jitted = escapement.jit(function)
    jitted(torch.randn(3, 4))
    with pytest.raises(AssertionError, match="five"):
        jitted(torch.randn(5, 4))
    assert torch.is_grad_enabled()
