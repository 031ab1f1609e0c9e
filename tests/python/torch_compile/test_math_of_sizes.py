"""Functions of `math` and NumPy that a program gives a size under torch.compile: one compile serves all, with eager's number to the last bit, and eager's errors."""

import math

import numpy as np
import pytest
import torch
from answered import outcome
from torch._dynamo.utils import counters

import escapement

SIZES = (3, 4, 5, 6, 7, 2, 9, 16, 64, 100, 3)
NUMBERS = {
    **{name: getattr(math, name) for name in ("sqrt", "isqrt", "log", "log2", "log10", "log1p")}, "exp": lambda n: math.exp(-n), "expm1": lambda n: math.expm1(n / 100), "pow": lambda n: math.pow(n, 0.37),
    "pow of": lambda n: math.pow(0.9, n), "log of a half": lambda n: math.log(n / 2), "entropy": lambda n: math.log(n) / math.log(512), "scale of attention": lambda n: math.log(n, *()) / math.sqrt(n), "levels": lambda n: int(math.log2(n)),
    "np.prod": lambda n: int(np.prod((n, 4))), "np.sqrt": lambda n: float(np.sqrt(n)), "np.ceil": lambda n: int(np.ceil(n / 2)), "np.floor": lambda n: int(np.floor(n / 3)),
}


def fresh(f):
    torch._dynamo.reset()
    escapement.reset()
    counters.clear()
    return torch.compile(f, backend="escapement")


def shown(value):
    return type(value), value.hex() if isinstance(value, float) else value


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("name", NUMBERS)
def test_of_a_size(name, gradients):
    asked = NUMBERS[name]

    def f(x):
        return x * asked(x.shape[0]), asked(x.shape[0])

    compiled = fresh(f)
    for n in SIZES:
        x = torch.ones(n, 2, requires_grad=gradients)
        product, number = compiled(x)
        assert shown(number) == shown(asked(n)) and torch.equal(product, x * asked(n)), n
        if gradients:
            torch.testing.assert_close(*(torch.autograd.grad(y.sum(), x)[0] for y in (product, x * asked(n))))
    assert counters["stats"]["unique_graphs"] == 1 and not counters["graph_break"]


@pytest.mark.parametrize("name", ["sqrt", "log", "log2", "log10", "log1p", "exp", "expm1", "pow", "pow of", "np.sqrt"])
def test_of_a_number(name):
    """Where it is not defined, too."""
    asked = NUMBERS[name]
    eager, compiled = (lambda x, n: (x * 2, asked(n))), fresh(lambda x, n: (x * 2, asked(n)))
    for n in (3.0, 0.5, 4.0, 0.0, -2.0, 1e-300, 700.0, 800.0, -5.5, 3, 0, -1, 1000):
        wanted, found = (outcome(lambda x, n, run=run: shown(run(x, n)[1]), torch.ones(2), n) for run in (eager, compiled))
        assert found == wanted or "nan" in str((found, wanted)), (n, wanted, found)


def test_floors_of_logarithms():
    """A logarithm that is rounded is a value of the data, which Dynamo reads."""
    def f(x):
        return x * math.floor(math.log(x.shape[0]) / math.log(2) + 1e-12), math.floor(math.log(x.shape[0]) / math.log(2))

    compiled = fresh(f)
    for n in (*SIZES, 8, 32, 1000, 1024):
        (product, number), (wanted, exact) = compiled(torch.ones(n)), f(torch.ones(n))
        assert torch.equal(product, wanted) and number == exact


@pytest.mark.parametrize("fullgraph", [False, True])
def test_branches_on_logarithms(fullgraph):
    """Where no graph may break the size is read instead: versions, and no exception."""
    def f(x):
        return x * 2 if math.log(x.shape[0]) < 1.5 else x - math.log10(x.shape[0])

    torch._dynamo.reset()
    compiled = torch.compile(f, backend="escapement", fullgraph=fullgraph)
    for n in (3, 4, 5, 9, 6, 2, 7, 3):
        torch.testing.assert_close(compiled(torch.ones(n)), f(torch.ones(n)))


WIDE = {
    "power": lambda n: n ** 5 % 7, "sum": lambda n: (n + 2 ** 70) % 1000, "difference": lambda n: (2 ** 70 - n) % 1000, "product": lambda n: 2 ** 70 * n % 1000,
    "quotient": lambda n: (n // 2 ** 70, 2 ** 70 // (n * n + 1) % 1000), "rest": lambda n: (n % 2 ** 70 % 1000, 2 ** 70 % (n * n + 1)),
    "extremes": lambda n: (max(n, 2 ** 70) % 7, min(n, 2 ** 70)),
}


@pytest.mark.parametrize("name", WIDE)
def test_wide_numbers(name):
    """Beyond 64 bits the numbers are Python's."""
    asked = WIDE[name]
    compiled = fresh(lambda x, n: (x * 2, asked(n)))
    for n in (3, 10, 2 ** 21, -7, 0, 2 ** 40):
        product, found = compiled(torch.ones(2), n)
        assert product.tolist() == [2, 2] and found == asked(n), (n, found)
    assert counters["stats"]["unique_graphs"] == 1 and not counters["graph_break"]
