"""Functions that reach more functions than a search follows: of packages and of the program's own. What they read is watched all the same, once they have run."""

import importlib
import itertools
import sys
import threading

import pytest
import torch

import escapement
from escapement.limits import OWN_FUNCTIONS, PACKAGE_FUNCTIONS, TURNS

pytestmark = [pytest.mark.usefixtures("fresh")]
HOMES = {"package": ("site-packages/large_by_somebody", 2 * PACKAGE_FUNCTIONS), "own": ("large_program", OWN_FUNCTIONS + PACKAGE_FUNCTIONS)}
SIZES = 3, 1, 0, 7

SETTINGS = """
SCALE, OTHER, TABLE, RARE, SEEN = 2.0, 3.0, {"gain": 4.0}, False, 0

class Config:
    bias = 1.0
    def __init__(self):
        self.power = 2.0
    def of(self, x):
        return x * self.power + self.bias

CONFIG = Config()
"""
HEAD = """
import torch
from . import settings
from .settings import CONFIG

def first(x):
    return x + settings.OTHER

"""
TAIL = """
def reach(x):
    if x is None:
        CALLS
    return x

def by_value(x):
    return by_name(reach(x))

def by_branch(x):
    return rare(reach(x)) if settings.RARE else first(reach(x))

def by_size(x):
    return rare(reach(x)) if x.shape[0] > 5 else by_name(reach(x))

def counted(x):
    return count(reach(x))

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 3.0

    def forward(self, x):
        return by_name(reach(x)) * self.scale
"""
LAST = """
def by_name(x):
    return x * settings.SCALE + settings.TABLE["gain"] + CONFIG.of(x)

def rare(x):
    return x - settings.OTHER * settings.SCALE

def count(x):
    settings.SEEN += 1
    return x * settings.SEEN
"""


def source(many):
    """What runs stands behind all that does not."""
    rest = "".join(f"def unused_{i}(x):\n    return x * settings.SCALE + {i}\n\n" for i in range(many))
    calls = "\n        ".join(f"unused_{i}(x)" for i in range(many))
    return HEAD + rest + LAST + TAIL.replace("CALLS", calls)


@pytest.fixture(params=HOMES)
def program(request, tmp_path, monkeypatch):
    name, many = HOMES[request.param]
    home = tmp_path / name
    home.mkdir(parents=True)
    (home / "__init__.py").write_text("")
    (home / "settings.py").write_text(SETTINGS)
    (home / "code.py").write_text(source(many))
    monkeypatch.syspath_prepend(str(home.parent))
    yield importlib.import_module(home.name + ".code")
    for each in [each for each in sys.modules if each.startswith(home.name)]:
        del sys.modules[each]


CHANGES = {
    "global": lambda settings, at: setattr(settings, "SCALE", float(at)),
    "other global": lambda settings, at: setattr(settings, "OTHER", float(at)),
    "item": lambda settings, at: settings.TABLE.update(gain=float(at)),
    "attribute": lambda settings, at: setattr(settings.CONFIG, "power", float(at)),
    "class": lambda settings, at: setattr(settings.Config, "bias", float(at)),
    "branch": lambda settings, at: setattr(settings, "RARE", at % 2 == 1),
}


def compare(fn, jitted, change, states=(0, 1, 2, 1)):
    with torch.no_grad():
        for at, size in itertools.product(states, SIZES):
            change(at)
            x = torch.arange(2.0 * size).reshape(size, 2)
            torch.testing.assert_close(jitted(x), fn(x), msg=lambda text, at=at, size=size: f"state {at}, {size} rows: {text}")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["by_value", "by_branch", "by_size", "Model"])
def test_each_change_is_noticed(program, name, change):
    fn = getattr(program, name)
    fn = fn() if name == "Model" else fn
    jitted = escapement.jit(fn)
    compare(fn, jitted, lambda at: CHANGES[change](program.settings, at))
    assert not jitted.info()["eager"] and jitted.info()["recordings"] <= 8, jitted.info()


@pytest.mark.parametrize("strict", [False, True])
def test_nothing_runs_eagerly(program, strict):
    jitted = escapement.jit(program.by_value, strict=strict)
    compare(program.by_value, jitted, lambda at: None)
    info = jitted.info()
    assert info["recordings"] == 1 and not info["eager"] and not info["dropped"], info


def test_what_stays_compared_is_kept(program):
    """Code that runs later is a reason to search anew, not to record anew what had run before."""
    def fn(x, rare=False):
        return program.rare(program.reach(x)) if rare else program.by_name(program.reach(x))

    def at_sizes(rare, *sizes):
        with torch.no_grad():
            for size in sizes:
                x = torch.ones(size, 2)
                torch.testing.assert_close(jitted(x, rare), fn(x, rare))
        return [region["versions"][0]["hits"] for region in jitted.info()["regions"]]

    jitted = escapement.jit(fn)
    at_sizes(False, 3, 2, 4, 3)
    assert at_sizes(True, 9, 8, 3, 9, 4) == [2, 3] and not jitted.info()["dropped"], jitted.info()


def test_state_that_the_program_changes(program):
    """In code that the first search has not reached."""
    jitted = escapement.jit(program.counted)
    settings = program.settings
    with torch.no_grad():
        for size in SIZES:
            x = torch.ones(size, 2)
            seen = settings.SEEN
            theirs = program.counted(x)
            settings.SEEN = seen
            torch.testing.assert_close(jitted(x), theirs)
            assert settings.SEEN == seen + 1


def test_code_that_nobody_sees(program):
    """Another thread's: what it reads would not be compared, and where there are too many functions nobody has searched it either."""
    def fn(x):
        found = []
        thread = threading.Thread(target=lambda: found.append(program.by_name(x.detach().clone())))
        thread.start()
        thread.join()
        return program.reach(x) + found[0]

    jitted = escapement.jit(fn)
    compare(fn, jitted, lambda at: CHANGES["global"](program.settings, at))


def test_code_that_is_made_at_each_call(program):
    """Nothing is ever the same code: there is an end to searching."""
    def fn(x):
        space = {"program": program}
        exec("def made(x):\n    return program.by_name(x)", space)
        return space["made"](program.reach(x))

    jitted = escapement.jit(fn)
    compare(fn, jitted, lambda at: CHANGES["global"](program.settings, at), range(2 * TURNS))


@pytest.mark.parametrize("many", [3, 130, 260, 33000])
def test_functions_with_many_names(many):
    """The name's place does not fit one byte then, or two."""
    space = {"LAST": 2.0}
    names = "".join(f"        a{i}\n" for i in range(many))
    exec(f"def fn(x):\n    if x is None:\n{names}    return x * LAST\n", space)
    fn = space["fn"]
    compare(fn, escapement.jit(fn), lambda at: space.update(LAST=float(at)))


def test_the_report_says_why(program):
    def fn(x):
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
        return program.reach(x) * 2

    jitted = escapement.jit(fn)
    compare(fn, jitted, lambda at: None)
    assert set(jitted.info()["eager"]) == {"state_not_compared"}
    assert "what more functions read than are searched" in str(escapement.explain(jitted)(torch.ones(2, 2)))
