"""Plain values that a program reads from elsewhere: numbers, texts, functions, objects. A changed one is a changed program: the next call computes with
it, versions of values that come back serve again, and values that nobody reads cost nothing."""

import dataclasses
import enum
import functools
import math
import types

import pytest
import torch
import torch.nn.functional as F
from jit_cases import set_attribute, set_item

import escapement

pytestmark = pytest.mark.usefixtures("fresh")
SCALE, POWER, ACTIVATION, TABLE, ITEMS, NESTED = 1.0, 2, F.relu, {"scale": 1.0}, [1.0, 2.0], {"inner": {"scale": [1.0, 2.0]}}
SETTINGS = types.SimpleNamespace(scale=1.0, kind="relu", inner=types.SimpleNamespace(scale=1.0))


class Kind(enum.Enum):
    RELU = 1
    TANH = 2


@dataclasses.dataclass
class Config:
    scale: float = 1.0
    kind: Kind = Kind.RELU


class Scaled:
    factor = 1.0                      # of the class

    def __init__(self):
        self.scale, self.config, self.items, self.text = 1.0, Config(), [1, 2], "relu"

    @property
    def twice(self):
        return 2 * self.scale

    def helper(self, x):
        return x * self.scale

    def __call__(self, x):
        return self.helper(x) * self.factor


class Net(torch.nn.Module):
    factor = 1.0

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.scale, self.act, self.config, self.eps, self.sizes = 1.0, F.relu, Config(), 1e-5, [2, 2]
        self.drop, self.norm, self.unused = torch.nn.Dropout(0.0), torch.nn.LayerNorm(4), 0

    def forward(self, x):
        y = self.act(x) * self.scale * self.factor * self.config.scale + self.eps
        y = y.reshape(-1, *self.sizes).flatten(1)
        return self.drop(self.norm(y))


scaled, net, local = Scaled(), Net().eval(), types.SimpleNamespace(value=1.0)


def default(x, scale=3.0, *, power=2):
    return x * scale ** power


def listed(x, scales=[1.0, 2.0]):   # noqa: B006  what the test is about
    return x * scales[0]


def closure():
    value = 1.0

    def function(x):
        return x * value

    def change(new):
        nonlocal value
        value = new

    return function, change


closed, change_closed = closure()
partial = functools.partial(lambda x, table: x * table["scale"], table={"scale": 1.0})
inner_helper = types.SimpleNamespace(run=lambda x: x * SCALE)


def set_global(name):
    return lambda value: globals().__setitem__(name, value)


FLOATS = (1.0, 2.0, 3.0)
# name: (program, what changes it, the values)
ROWS = {
    "global float": (lambda x: x * SCALE, set_global("SCALE"), FLOATS),
    "global int": (lambda x: x ** POWER, set_global("POWER"), (2, 3, 1)),
    "global zero and minus zero": (lambda x: x * 0 + SCALE, set_global("SCALE"), (0.0, -0.0, 0.0)),
    "global NaN": (lambda x: x * SCALE, set_global("SCALE"), (math.nan, 1.0, math.nan)),
    "global None": (lambda x: x if SCALE is None else x + 1, set_global("SCALE"), (None, 1.0, None)),
    "global function": (lambda x: ACTIVATION(x), set_global("ACTIVATION"), (F.relu, torch.tanh, F.relu)),
    "global of a helper": (lambda x: inner_helper.run(x), set_global("SCALE"), FLOATS),
    "bool and int": (lambda x: x * SCALE if isinstance(SCALE, bool) else x + 1, set_global("SCALE"), (True, 1, True)),
    "dict item": (lambda x: x * TABLE["scale"], set_item(TABLE, "scale"), FLOATS),
    "dict key": (lambda x: x * len(TABLE), lambda value: TABLE.__setitem__(str(value), 1), (1, 2, 3)),
    "list item": (lambda x: x * ITEMS[0] + ITEMS[1], set_item(ITEMS, 1), FLOATS),
    "list length": (lambda x: x * len(ITEMS), lambda value: ITEMS.append(1.0), (1, 2, 3)),
    "another list": (lambda x: x * ITEMS[0], lambda value: set_global("ITEMS")([value, 1.0]), FLOATS),
    "another dict": (lambda x: x * TABLE["scale"], lambda value: set_global("TABLE")({"scale": value}), FLOATS),
    "tuple": (lambda x: x * TABLE["scale"][1], lambda value: set_global("TABLE")({"scale": (1.0, value)}), FLOATS),
    "list or tuple": (lambda x: x + 1 if isinstance(ITEMS, tuple) else x, set_global("ITEMS"), ([1.0, 2.0], (1.0, 2.0), [1.0, 2.0])),
    "another list of a module": (net, lambda value: set_attribute(net, "sizes")(list(value)), ([2, 2], [4], [1, 4])),
    "nested containers": (lambda x: x * NESTED["inner"]["scale"][1], set_item(NESTED["inner"]["scale"], 1), FLOATS),
    "namespace": (lambda x: x * SETTINGS.scale, set_attribute(SETTINGS, "scale"), FLOATS),
    "inner namespace": (lambda x: x * SETTINGS.inner.scale, set_attribute(SETTINGS.inner, "scale"), FLOATS),
    "another namespace": (lambda x: x * SETTINGS.inner.scale, lambda value: set_attribute(SETTINGS, "inner")(types.SimpleNamespace(scale=value)), FLOATS),
    "text": (lambda x: getattr(torch, SETTINGS.kind)(x), set_attribute(SETTINGS, "kind"), ("relu", "tanh", "relu")),
    "getattr": (lambda x: x * getattr(SETTINGS, "scale"), set_attribute(SETTINGS, "scale"), FLOATS),
    "closure": (closed, change_closed, FLOATS),
    "mutable default": (listed, lambda value: listed.__defaults__[0].__setitem__(0, value), FLOATS),
    "default": (default, set_attribute(default, "__defaults__"), ((3.0,), (1.0,), (2.0,))),
    "keyword default": (default, set_attribute(default, "__kwdefaults__"), ({"power": 2}, {"power": 1}, {"power": 3})),
    "partial": (partial, set_item(partial.keywords["table"], "scale"), FLOATS),
    "attribute of an object": (scaled, set_attribute(scaled, "scale"), FLOATS),
    "attribute, by a bound method": (scaled.helper, set_attribute(scaled, "scale"), FLOATS),
    "attribute of a class": (scaled, set_attribute(Scaled, "factor"), FLOATS),
    "property": (lambda x: x * scaled.twice, set_attribute(scaled, "scale"), FLOATS),
    "method replaced": (scaled, set_attribute(Scaled, "helper"), (Scaled.helper, lambda self, x: x + 1, Scaled.helper)),
    "dataclass": (lambda x: x * scaled.config.scale, set_attribute(scaled.config, "scale"), FLOATS),
    "enum": (lambda x: x.relu() if scaled.config.kind is Kind.RELU else x.tanh(), set_attribute(scaled.config, "kind"), (Kind.RELU, Kind.TANH, Kind.RELU)),
    "module: number": (net, set_attribute(net, "scale"), FLOATS),
    "module: function": (net, set_attribute(net, "act"), (F.relu, torch.tanh, F.relu)),
    "module: of its class": (net, set_attribute(Net, "factor"), FLOATS),
    "module: config": (net, lambda value: set_attribute(net.config, "scale")(value), FLOATS),
    "module: another config": (net, lambda value: set_attribute(net, "config")(Config(value)), FLOATS),
    "module: eps": (net, set_attribute(net, "eps"), (1e-5, 1.0, 2.0)),
    "module: list": (net, lambda value: net.sizes.__setitem__(slice(None), value), ([2, 2], [4], [1, 4])),
    "module: eps of a layer": (net, set_attribute(net.norm, "eps"), (1e-5, 1.0, 0.5)),
    "module: forward": (net, set_attribute(Net, "forward"), (Net.forward, lambda self, x: x + 1, Net.forward)),
    "function of a function": (lambda x: default(x), set_attribute(default, "__defaults__"), ((3.0,), (1.0,), (2.0,))),
    "code": (lambda x: default(x), set_attribute(default, "__code__"), (default.__code__, (lambda x, scale=3.0, *, power=2: x + scale).__code__, default.__code__)),
    "attribute of a function": (lambda x: x * default.scale, set_attribute(default, "scale"), FLOATS),
}


@pytest.mark.parametrize("row", ROWS)
def test_a_changed_value_is_used(row):
    program, change, values = ROWS[row]
    change(values[0])
    compiled = escapement.jit(program)
    try:
        with torch.no_grad():
            for value in (*values, *values):
                change(value)
                for rows in (2, 3, 2):
                    x = torch.arange(rows * 4.0).view(rows, 4) - 3
                    want, got = program(x), compiled(x)
                    assert torch.allclose(got, want, atol=1e-6, equal_nan=True), (value, got, want)
                    assert torch.equal(torch.signbit(got), torch.signbit(want)) or row.startswith("module") or want.isnan().any()
    finally:
        change(values[0])


@pytest.mark.parametrize("row", ["global float", "namespace", "attribute of an object", "module: number", "closure", "module: config"])
def test_values_that_come_back_are_served_again(row):
    program, change, values = ROWS[row]
    change(values[0])
    compiled = escapement.jit(program)
    x = torch.ones(3, 4)
    with torch.no_grad():
        for value in values * 4:
            change(value)
            compiled(x)
        change(values[0])
    assert compiled.info()["recordings"] == len(values) and not compiled.info()["eager"]


def test_what_takes_too_many_values_goes_on_in_replay_mode():
    settings = types.SimpleNamespace(temperature=1.0)
    compiled = escapement.jit(lambda x: (x / settings.temperature).softmax(-1))
    for step in range(60):
        settings.temperature = 1.0 + step
        x = torch.randn(2, 3)
        assert torch.allclose(compiled(x), (x / settings.temperature).softmax(-1), atol=1e-6)
    info = compiled.info()
    assert info["recordings"] <= 16 and info["eager"] == {"too_many_values_elsewhere": 44}


def scaled_by(value):
    """Whatever stands there: nothing, an object, an object in a list."""
    held = value[0] if isinstance(value, (list, tuple)) and value else value
    return getattr(held, "scale", 7.0)


ARRIVALS = {"an object where nothing was": (None, types.SimpleNamespace(scale=1.0), None, types.SimpleNamespace(scale=1.0)),
            "another object in a list": tuple([types.SimpleNamespace(scale=1.0)] for _ in range(3)),
            "another object in a tuple": tuple((types.SimpleNamespace(scale=1.0),) for _ in range(3)),
            "an object where a number was": (1.0, types.SimpleNamespace(scale=1.0), [types.SimpleNamespace(scale=1.0)], [])}


@pytest.mark.parametrize("in_cell", [False, True])
@pytest.mark.parametrize("name", ARRIVALS)
def test_what_came_later_is_watched_too(name, in_cell):
    settings, cell = types.SimpleNamespace(inner=None), None

    def program(x):
        return x * scaled_by(cell if in_cell else settings.inner)

    compiled = escapement.jit(program)
    for value in ARRIVALS[name]:
        settings.inner = cell = value
        held = value[0] if isinstance(value, (list, tuple)) and value else value
        for scale in (1.0, 2.0, 3.0):
            if isinstance(held, types.SimpleNamespace):
                held.scale = scale
            for rows in (0, 1, 7):
                x = torch.ones(rows)
                assert torch.equal(compiled(x), program(x)), (value, scale)


def test_a_list_that_holds_itself_and_a_long_one():
    itself, long = [1.0], [0.5] * 5000
    itself.append(itself)
    compiled = escapement.jit(lambda x: x * itself[0] + long[7])
    for step in range(6):
        itself[0] = 1.0 + step % 2
        assert torch.equal(compiled(torch.ones(2)), torch.ones(2) * itself[0] + 0.5)
    assert compiled.info()["recordings"] == 2


def test_what_nobody_reads_costs_nothing():
    settings = types.SimpleNamespace(scale=2.0, calls=0)
    net = Net().eval()

    def program(x):
        return net(x) * settings.scale

    compiled = escapement.jit(program)
    with torch.no_grad():
        for step in range(40):
            settings.calls, net.unused, net.steps = step, step, step
            compiled(torch.ones(2, 4))
    assert compiled.info()["recordings"] == 1 and not compiled.info()["eager"]


def test_an_equal_value_is_the_same():
    settings = types.SimpleNamespace(scale=2.5, text="re", items=[1000.5, "lu"])
    compiled = escapement.jit(lambda x: x * settings.scale * len(settings.text) * settings.items[0])
    for step in range(10):
        settings.scale, settings.text, settings.items = float("2.5"), "".join(["r", "e"]), [float("1000.5"), "".join(["l", "u"])]
        assert torch.equal(compiled(torch.ones(2)), torch.ones(2) * 2.5 * 2 * 1000.5)
    assert compiled.info()["recordings"] == 1
