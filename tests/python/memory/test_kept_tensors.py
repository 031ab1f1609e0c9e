"""Operators of somebody else's: one may keep a tensor that it was given, and one may hand back what it was given; it does something all the same."""
import pytest
import torch

import escapement

KEPT, SEEN = [], []


@torch.library.custom_op("kept::keep", mutates_args=())
def keep(x: torch.Tensor) -> torch.Tensor:
    KEPT.append(x)
    return x.sum().reshape(1)


@keep.register_fake
def _(x):
    return x.new_empty(1)


LIBRARY = torch.library.Library("kept", "FRAGMENT")
LIBRARY.define("look(Tensor x) -> Tensor")
LIBRARY.define("finish(Tensor x) -> Tensor")


def look(x):
    SEEN.append(x.detach().clone())
    return x


def finish(x):
    """As wait_tensor: what it hands back was not there before."""
    SEEN.append(x.detach().clone())
    if x.dtype == torch.float32:
        x.detach().numpy()[...] += 1
    return x


for name, function in (("look", look), ("finish", finish)):
    LIBRARY.impl(name, function, "CPU")
    LIBRARY.impl(name, lambda x: x, "Meta")


def keeps(x):
    y = x * 2 + 1
    s = torch.ops.kept.keep(y)
    z = torch.relu(x) * 3
    return (torch.exp(x) * 5) * (z.sum(-1, keepdim=True) * s), z + s


def keeps_a_view(x):
    y = torch.exp(-x * x)
    s = torch.ops.kept.keep(y.t()[1:])
    return torch.tanh(x).flip(0) * s, torch.sigmoid(x).roll(1, 0) + s


def looks(x):
    y = x * 2
    torch.ops.kept.look(y)
    return torch.ops.kept.look(y + 1) * 3


def finishes(x):
    y = x * 2
    z = torch.ops.kept.finish(y)
    return y * 3, z + 1, torch.ops.kept.finish(z * 5)


@pytest.fixture(params=["torch.compile", "jit", "replay"])
def compiled(request):
    torch.compiler.reset()
    if request.param == "torch.compile":
        return lambda function: torch.compile(function, backend="escapement")
    return lambda function: escapement.jit(function, mode="replay" if request.param == "replay" else "call")


@pytest.mark.parametrize("function", [keeps, keeps_a_view])
def test_what_an_operator_keeps_is_not_written_again(compiled, function):
    fast = compiled(function)
    with torch.no_grad():
        for rows in (200, 7, 1, 0, 31, 1000):
            x = torch.randn(rows, 4)
            KEPT.clear()
            expected = function(x)
            torch.testing.assert_close(fast(x), expected)
            fast(torch.randn(rows, 4))
            torch.testing.assert_close(KEPT[1], KEPT[0])


@pytest.mark.parametrize("function", [looks, finishes])
def test_what_hands_back_its_argument_is_called_all_the_same(compiled, function):
    fast = compiled(function)
    with torch.no_grad():
        for rows in (20, 7, 1, 3, 50):
            x = torch.randn(rows, 4)
            SEEN.clear()
            expected = function(x.clone())
            wanted = list(SEEN)
            SEEN.clear()
            torch.testing.assert_close(fast(x.clone()), expected)
            torch.testing.assert_close(SEEN, wanted)
