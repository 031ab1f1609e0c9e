"""`x.is_integer()` of a float that is computed from sizes is a relation, so that it makes two versions and not one for each value (windows of attention ask so
whether a length has to be padded); of a float that comes from data or as an argument it is Python's answer, of numbers that are none, too."""

import math

import pytest
import torch
import torch.nn.functional as F

from escapement.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh")


def padded(x):
    times = x.shape[0] / 4
    if times.is_integer():
        return x * 2
    return F.pad(x * 3, (0, 0, 0, math.ceil(times) * 4 - x.shape[0]))


def test_of_sizes():
    compiled = torch.compile(padded, backend="escapement")
    for rows in (8, 12, 3, 16, 5, 7, 1, 0, 4, 100, 99):
        x = torch.randn(rows, 2)
        torch.testing.assert_close(compiled(x), padded(x))
    assert (LEDGER.counters()["compiles"], LEDGER.counters()["specialised_dims"], LEDGER.counters()["graph_breaks"]) == (2, 0, 0)


@pytest.mark.parametrize("of", [lambda x, s: s, lambda x, s: x.sum().item() * 0 + s, lambda x, s: s * x.shape[0], lambda x, s: float(x.shape[0])])
def test_of_any_float(of):
    def program(x, s):
        return x * (2 if of(x, s).is_integer() else 3)

    compiled = torch.compile(program, backend="escapement")
    for s in (1.0, 1.5, 2.0, 2.5, 3.0, math.inf, math.nan, -0.0, 1e300, 0.25):
        torch.testing.assert_close(compiled(torch.ones(2), s), program(torch.ones(2), s))
