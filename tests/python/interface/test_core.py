"""The compiled core is kept once it is found, and is still the one that Python knows by its name."""

import sys
import types

import pytest

from escapement.core import NAME, CoreMissing, core


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
