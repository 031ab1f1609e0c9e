"""What a program does at its first call only - lazy parameters, a question after what is installed, a table that is filled - does not leave its later calls eager;
and what can never be compiled is attempted twice and no more."""

import importlib

import pytest
import torch

import escapement
from escapement.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh")


class Lazy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.LazyLinear(4)

    def forward(self, x):
        return self.layer(x) * 2


class Installed:
    """As lightning's RequirementCache."""

    def __init__(self):
        self.answer = None

    def __bool__(self):
        if self.answer is None:
            try:
                importlib.import_module("a_module_that_nobody_has")
                self.answer = True
            except ModuleNotFoundError:
                self.answer = False
        return self.answer


class Asks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.installed = Installed()

    def forward(self, x):
        return x if self.installed else x * 2


class Buffer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.ready = False

    def forward(self, x):
        if not self.ready:
            self.register_buffer("scale", torch.ones(x.shape[-1]) * 3)
            self.ready = True
        return x * self.scale


@pytest.mark.parametrize("kind", [Lazy, Asks, Buffer])
def test_later_calls_are_compiled(kind):
    model = kind()
    compiled = torch.compile(model, backend="escapement")
    with torch.no_grad():
        for rows in (5, 3, 4, 1, 0, 7):
            x, before = torch.randn(rows, 8), escapement.stats().get("launches", 0)
            torch.testing.assert_close(compiled(x), model(x))
            assert escapement.stats().get("launches", 0) > before or rows in (5, 3, 4)   # first what is done once, and the recordings
    assert LEDGER.counters()["refused_calls"] == 0 and LEDGER.counters()["compiles"] <= 2


def test_what_can_never_be_compiled_is_attempted_twice():
    def program(x):
        total = x
        for step in range(3):
            if float(total.sum()) > step:   # in a loop, where there is no graph break
                total = total + 1
        return total

    compiled = torch.compile(program, backend="escapement")
    for rows in (5, 3, 4, 2, 7):
        torch.testing.assert_close(compiled(torch.ones(rows)), program(torch.ones(rows)))
    seen = LEDGER.counters()
    assert (seen["skipped_frames"], seen["refused_calls"]) == (2, 3)
