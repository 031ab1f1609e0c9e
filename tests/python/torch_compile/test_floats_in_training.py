"""A float that varies is one compile and one recording in graphs with gradients too, wherever eager takes any number; results and gradients are eager's."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import escapement

pytestmark = pytest.mark.usefixtures("fresh")

WIDTH = 4
VALUES = (0.1, 0.37, 0.5, 2.0, 1.0, 3.0, 0.73, -1.5, 1e-3, 11.0)
LENGTHS = (3, 5, 7, 1, 2, 0, 13)



def filled(y, s):
    y[:, 0] = s
    return y


OPERATORS = {
    "where": lambda x, w, s: torch.where(x > 0, w(x), s), "clamp": lambda x, w, s: w(x).clamp(max=s), "between": lambda x, w, s: w(x).clamp(-s, s),
    "masked_fill": lambda x, w, s: w(x).masked_fill(x > 0, s), "alpha of add": lambda x, w, s: w(x).add(x, alpha=s), "alpha of sub": lambda x, w, s: w(x).sub(x * 2, alpha=s),
    "full": lambda x, w, s: w(x) + torch.full((x.shape[0], 1), s), "tensor": lambda x, w, s: w(x) * torch.tensor(s), "linspace": lambda x, w, s: w(x) * torch.linspace(0, s, WIDTH),
    "from a number": lambda x, w, s: s - w(x), "times": lambda x, w, s: w(x) * s + s, "divided": lambda x, w, s: w(x) / s, "computed": lambda x, w, s: w(x) * (1 - s) * s + s * 3,
    "leaky": lambda x, w, s: F.leaky_relu(w(x), abs(s)), "addcmul": lambda x, w, s: torch.addcmul(x, w(x), x, value=s),
    "an element": lambda x, w, s: filled(w(x) * 2, s),
}
FORMULAS = {
    "softplus": lambda x, w, s: F.softplus(w(x), beta=s),
    "power": lambda x, w, s: (w(x).abs() + 0.1) ** s, "pow": lambda x, w, s: torch.pow(w(x).abs() + 0.1, s), "a method": lambda x, w, s: (w(x).abs() + 0.1).pow(s),
    "lerp": lambda x, w, s: w(x).lerp(x, s), "lerp, broadcast": lambda x, w, s: torch.lerp(w(x), x[:1] * 2, s) if x.shape[0] else w(x) * s,
}
VERSIONS = {"leaky": 2, "alpha of add": 2, "alpha of sub": 2, "lerp, broadcast": 3}   # the sign of a number; whether it is 1; how many rows there are


def outcome(call, weights, length, value):
    x = torch.randn(length, WIDTH, generator=torch.Generator().manual_seed(length)).requires_grad_()
    results = call(x, weights, value)
    results = results if isinstance(results, tuple) else (results,)
    gradients = torch.autograd.grad(results[0].sum(), (x, *weights.parameters()), allow_unused=True)
    return (*results, *(gradient for gradient in gradients if gradient is not None))


def rounds():
    yield from ((LENGTHS[place % len(LENGTHS)], value) for place, value in enumerate(VALUES))


def check(program, exact, most=1):
    torch.manual_seed(0)
    weights = nn.Linear(WIDTH, WIDTH)
    compiled = torch.compile(program, backend="escapement")
    for length, value in rounds():
        found, expected = outcome(compiled, weights, length, value), outcome(program, weights, length, value)
        assert len(found) == len(expected)
        for ours, eager in zip(found, expected):
            if exact and isinstance(eager, torch.Tensor) and ours is found[0]:
                assert torch.equal(ours, eager), (length, value)
            torch.testing.assert_close(ours, eager, msg=lambda text: f"{length}, {value}: {text}")
    counted = escapement.stats()["dynamo"]
    assert counted["compiles"] <= most and not counted["graph_breaks"] and not counted["refused_calls"] and not counted["fallbacks"], counted
    for length, value in rounds():
        before = escapement.stats()
        outcome(compiled, weights, length, value + 0.25)
        after = escapement.stats()
        assert after["recordings"] == before["recordings"] and after["hits"] == before["hits"] + 2, (length, value)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_float_that_varies_is_one_compile(name):
    check(OPERATORS[name], True, VERSIONS.get(name, 1))


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_of_numbers(name):
    check(FORMULAS[name], False, VERSIONS.get(name, 1))


def test_no_power_has_no_gradient():
    """Where the exponent is 0, eager's gradient is 0 at 0 too."""
    def program(x, s):
        return x ** s

    compiled = torch.compile(program, backend="escapement")
    for value in (2.5, 0.0, 1.0, -0.0, 3.0):
        for call in (compiled, program):
            x = torch.tensor([0.0, 2.0, 5.0]).requires_grad_()
            result = call(x, value)
            expected = torch.tensor([value * 0.0 ** (value - 1) if value else 0.0, value * 2.0 ** (value - 1), value * 5.0 ** (value - 1)])
            torch.testing.assert_close(torch.autograd.grad(result.sum(), x)[0], expected)
    assert escapement.stats()["dynamo"]["compiles"] == 2


def test_floats_that_come_back():
    check(lambda x, w, s: (w(x) * s, s * 2, s, x.shape[0] * s), True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_a_number_has_no_dtype(dtype):
    def program(x, s):
        return torch.where(x > 0, x, s), x.clamp(max=s), x.masked_fill(x > 0, s), x * s

    compiled = torch.compile(program, backend="escapement")
    for value in VALUES:
        found, expected = ([*results, torch.autograd.grad(sum(result.double().sum() for result in results), x)[0]]
                           for x in [torch.linspace(-2, 3, 11, dtype=dtype).requires_grad_()] for results in (compiled(x, value), program(x, value)))
        for ours, eager in zip(found, expected, strict=True):
            assert ours.dtype == eager.dtype
            torch.testing.assert_close(ours, eager)
    assert escapement.stats()["dynamo"]["compiles"] == 1


def test_an_attribute_that_an_epoch_changes():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.limit = nn.Linear(WIDTH, WIDTH), 0.0

        def forward(self, x):
            return self.linear(x).clamp(max=self.limit)

    model = Model()
    compiled = torch.compile(model, backend="escapement")
    for length, value in rounds():
        model.limit = value
        x = torch.randn(length, WIDTH)
        assert torch.equal(compiled(x), model(x))
        compiled(x).sum().backward()
    assert escapement.stats()["dynamo"]["compiles"] == 2   # a number of a module is a constant until it varies


def test_a_backward_that_is_compiled_later():
    """It takes what was saved as tensors and integers only."""
    def program(x, w, s):
        return (torch.where(x > 0, w(x), s) * s).clamp(max=s * 3).add(w(x), alpha=s)

    torch.manual_seed(0)
    weights = nn.Linear(WIDTH, WIDTH)
    compiled = torch.compile(program, backend="escapement")
    for length, value in ((3, 0.3), (5, 0.7), (1, 0.45), (7, 0.9)):
        x = torch.randn(length, WIDTH)
        expected = torch.autograd.grad(program(x, weights, value).sum(), [*weights.parameters()])
        weights.zero_grad()
        result = compiled(x, weights, value).sum()
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager", dynamic=True)):
            result.backward()
        for parameter, gradient in zip(weights.parameters(), expected):
            torch.testing.assert_close(parameter.grad, gradient)
    assert escapement.stats()["dynamo"]["compiles"] == 1
