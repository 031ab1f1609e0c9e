"""The compiled core is kept once it is found, and is still the one that Python knows by its name."""

import sys
import types

import pytest
import torch

from escapement.core import NAME, CoreMissing, core
from escapement.ledger import LEDGER


def test_it_is_the_module_of_its_name(monkeypatch):
    real, other = core(), types.ModuleType(NAME)
    assert core() is real is sys.modules[NAME]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, NAME, other)
        assert core() is other
    assert core() is real


def test_it_is_missed_at_once_and_found_again(monkeypatch):
    real = core()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, NAME, None)
        with pytest.raises(CoreMissing):
            core()
    assert core() is real


@pytest.mark.usefixtures("fresh")
def test_operators_with_bodies_stay_recorded_when_it_is_found_again(monkeypatch):
    def choice(x):
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y * 2, (x,))

    real = core()
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(choice, backend="escapement")(torch.ones(3)), torch.ones(3) + 1)
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, NAME, types.ModuleType(NAME))
            core()
        assert core() is real
        torch.compiler.reset()
        compiled = torch.compile(choice, backend="escapement")
        for size in (3, 5, 1):
            torch.testing.assert_close(compiled(-torch.ones(size)), -2 * torch.ones(size))
    assert not any(region.info()["fallbacks"] for function in LEDGER.functions() for region in function.regions())
