"""Values that a program reads where it takes a step or two to find them: in classes, in what methods read, in modules of its own, in slots, beside tensors in
one dict, in hooks, in optimisers. A changed one is used by the next call; where the program changes it itself, it goes on as in eager.
"""

import argparse
import collections
import dataclasses
import functools
import json
import random
import sys
import types

import numpy as np
import pytest
import torch
from jit_cases import set_attribute, set_item

import escapement

pytestmark = pytest.mark.usefixtures("fresh")
EPS, WEIGHT = 1.0, torch.ones(4)
OWN = types.ModuleType("programs_own_module")
OWN.__file__ = __file__
exec("K, W, N = 2.0, None, 0\ndef scaled(x): return x * K\ndef counted(x):\n    global N\n    N += 1\n    return x * N\ndef weighted(x): return x * W\n", vars(OWN))
OWN.W = torch.ones(4)
sys.modules[OWN.__name__] = OWN


class Settings:
    scale, weight, calls, table = 2.0, torch.ones(4), 0, {"kind": 1.0}

    @staticmethod
    def gain(x):
        return x * EPS

    @classmethod
    def moved(cls, x):
        return x + cls.scale


class Block(torch.nn.Module):
    def forward(self, x):
        return x * WEIGHT + EPS


class Norm:
    def __init__(self):
        self.mean, self.net, self.drop = torch.zeros(4), torch.nn.Linear(4, 4, bias=False), torch.nn.Dropout(1.0).eval()

    def __call__(self, x):
        return x - self.mean * EPS

    def through(self, x):
        return self.drop(self.net(x))


class Built:
    def __init__(self, x):
        self.x = x

    def out(self):
        return self.x * WEIGHT + EPS


class Slots:
    __slots__ = ("scale", "weight", "calls")

    def __init__(self):
        self.scale, self.weight, self.calls = 2.0, torch.ones(4), 0

    def step(self, x):
        self.calls += 1
        return x * self.calls


@dataclasses.dataclass(slots=True) if sys.version_info >= (3, 10) else dataclasses.dataclass
class Frozen:
    scale: float = 2.0
    weight: torch.Tensor = None


class Hidden:
    scale = 2.0
    weight = torch.ones(4)

    def shift(self, x):
        return x + 1

    def __call__(self, x):
        return self.shift(x) * self.scale * self.weight


class Held(torch.nn.Module):
    def __init__(self, run):
        super().__init__()
        self.run = run

    def forward(self, x):
        return self.run(x)


class Attributed(dict):
    __getattr__ = dict.__getitem__


def with_factor():
    factor = 1.0

    def run(x):
        return x * factor

    def change(value):
        nonlocal factor
        factor = value

    return run, change


run, change_factor = with_factor()
mixed, listed, nested = {"scale": 2.0, "w": torch.ones(4)}, [2.0, torch.ones(4)], {"p": {"scale": 2.0, "b": torch.ones(4)}, "n": 1}
norm, slots, frozen, held = Norm(), Slots(), Frozen(2.0, torch.ones(4)), types.SimpleNamespace(gain_0=1.0, gain_1=2.0)
attributed, user_dict, namespace = Attributed(scale=2.0, w=torch.ones(4)), collections.UserDict(scale=2.0), argparse.Namespace(w=torch.ones(4))
normal, hooked, hook_scale = torch.distributions.Normal(torch.zeros(4), torch.ones(4)), torch.nn.Sequential(torch.nn.Identity()), {"value": 2.0}
hooked[0].register_forward_hook(lambda module, given, result: result * hook_scale["value"])
hiding = {name: Hidden() for name in ("scale", "weight", "shift")}
parameter = torch.nn.Parameter(torch.zeros(4))
optimizer = torch.optim.SGD([parameter], lr=0.5)


def stepped(x):
    parameter.grad = None
    parameter.zero_()
    parameter.sub_(x.mean(0), alpha=optimizer.param_groups[0]["lr"])
    return parameter * 1


def set_global(name):
    return lambda value: globals().__setitem__(name, value)


NUMBERS, TENSORS = (2.0, 5.0, 3.0), (torch.ones(4), torch.full((4,), 7.0), torch.arange(4.0))
MATRICES = tuple(torch.nn.Parameter(torch.full((4, 4), value), requires_grad=False) for value in (1.0, 3.0, 4.0))
ROWS = {
    "class: number": (lambda x: x * Settings.scale, set_attribute(Settings, "scale"), NUMBERS), "class: tensor": (lambda x: x * Settings.weight, set_attribute(Settings, "weight"), TENSORS),
    "class: in a dict": (lambda x: x * Settings.table["kind"], set_item(Settings.table, "kind"), NUMBERS), "static method's global": (lambda x: Settings.gain(x), set_global("EPS"), NUMBERS),
    "class method": (lambda x: Settings.moved(x), set_attribute(Settings, "scale"), NUMBERS), "submodule's global": (torch.nn.Sequential(Block(), torch.nn.Identity()), set_global("EPS"), NUMBERS),
    "submodule's global tensor": (torch.nn.Sequential(Block()), set_global("WEIGHT"), TENSORS), "method's global": (lambda x: norm(x), set_global("EPS"), NUMBERS),
    "object made inside": (lambda x: Built(x).out(), set_global("EPS"), NUMBERS), "object made inside: tensor": (lambda x: Built(x).out(), set_global("WEIGHT"), TENSORS),
    "own module: function": (lambda x: OWN.scaled(x), set_attribute(OWN, "K"), NUMBERS), "own module: tensor": (lambda x: x * OWN.W, set_attribute(OWN, "W"), TENSORS),
    "own module: function's tensor": (lambda x: OWN.weighted(x), set_attribute(OWN, "W"), TENSORS), "beside a tensor in a dict": (lambda x: x * mixed["scale"] + mixed["w"], set_item(mixed, "scale"), NUMBERS),
    "beside a tensor in a list": (lambda x: x * listed[0] + listed[1], set_item(listed, 0), NUMBERS), "in a dict of a dict": (lambda x: x * nested["p"]["scale"] + nested["p"]["b"], set_item(nested["p"], "scale"), NUMBERS),
    "module's object": (Held(norm), set_attribute(norm, "mean"), TENSORS), "module's closure": (Held(run), change_factor, NUMBERS), "module in an object": (Held(norm.through), set_attribute(norm.net, "weight"), MATRICES),
    "mode of a module in a lambda": (Held(lambda x: norm.through(x)), lambda value: norm.drop.train(value), (False, True, False)), "partial of a module": (Held(functools.partial(norm.net)), set_attribute(norm.net, "weight"), MATRICES),
    "hook's closure": (hooked, set_item(hook_scale, "value"), NUMBERS), "slot": (lambda x: x * slots.scale, set_attribute(slots, "scale"), NUMBERS), "slot: tensor": (lambda x: x * slots.weight, set_attribute(slots, "weight"), TENSORS),
    "dataclass with slots": (lambda x: x * frozen.scale + frozen.weight, set_attribute(frozen, "scale"), NUMBERS), "hides a number": (hiding["scale"], set_attribute(hiding["scale"], "scale"), NUMBERS),
    "hides a tensor": (hiding["weight"], set_attribute(hiding["weight"], "weight"), TENSORS), "hides a method": (hiding["shift"], set_attribute(hiding["shift"], "shift"), (lambda x: x + 1, lambda x: x * 10, lambda x: x - 2)),
    "name put together": (lambda x: [x := x * getattr(held, f"gain_{i}") for i in range(2)][-1], set_attribute(held, "gain_1"), NUMBERS), "all attributes": (lambda x: (lambda x, gain_0, gain_1: x * gain_0 + gain_1)(x, **vars(held)), set_attribute(held, "gain_1"), NUMBERS),
    "dict by attributes": (lambda x: x * attributed.scale + attributed.w, set_item(attributed, "scale"), NUMBERS), "UserDict": (lambda x: x * user_dict["scale"], set_item(user_dict, "scale"), NUMBERS),
    "argparse": (lambda x: x * namespace.w, set_attribute(namespace, "w"), TENSORS), "distribution": (lambda x: normal.log_prob(x), set_attribute(normal, "loc"), TENSORS),
    "optimiser": (stepped, set_item(optimizer.param_groups[0], "lr"), (0.5, 0.25, 2.0)),
}


@pytest.mark.parametrize("row", ROWS)
def test_a_changed_value_is_used_wherever_it_stands(row):
    program, change, values = ROWS[row]
    change(values[0])
    compiled = escapement.jit(program)
    try:
        with torch.no_grad():
            for value in (*values, *values):
                change(value)
                for rows in (2, 3, 1):
                    x = torch.arange(rows * 4.0).view(rows, 4) - 3
                    want = program(x).clone()
                    torch.testing.assert_close(compiled(x), want)
    finally:
        change(values[0])


@dataclasses.dataclass
class Batch:
    x: torch.Tensor

    def scaled(self):
        return self.x * WEIGHT + EPS


@pytest.mark.parametrize(("name", "values"), [("EPS", NUMBERS), ("WEIGHT", TENSORS)])
def test_what_methods_of_an_argument_read(name, values):
    escapement.reset()
    compiled, change = escapement.jit(lambda batch: batch.scaled()), set_global(name)
    before = globals()[name]
    try:
        for value in (*values, *values):
            change(value)
            for rows in (2, 3, 1):
                batch = Batch(torch.arange(rows * 4.0).view(rows, 4))
                torch.testing.assert_close(compiled(batch), batch.scaled())
    finally:
        change(before)
    assert compiled.info()["recordings"] >= 1 and not compiled.info()["eager"]


def count_in_class(x):
    Settings.calls += 1
    return x * Settings.calls


def helper(x):
    helper.calls = getattr(helper, "calls", 0) + 1
    return x * helper.calls


moments = {"m": torch.zeros(4), "hyper": {"step": 0, "decay": 0.5}}


def moving(x):
    hyper = moments["hyper"]
    hyper["step"] += 1
    moments["m"].mul_(hyper["decay"]).add_(x.mean(0), alpha=1 - hyper["decay"])
    return moments["m"] / (1 - hyper["decay"] ** hyper["step"])


def counted_by_hand():
    Settings.calls, OWN.N, helper.calls, slots.calls = 0, 0, 0, 0
    moments["hyper"]["step"] = 0
    moments["m"].zero_()


COUNTERS = {"class": count_in_class, "function": lambda x: helper(x), "own module": lambda x: OWN.counted(x), "slots": slots.step, "dict in a dict": moving}


@pytest.mark.parametrize("name", COUNTERS)
def test_a_program_that_counts(name):
    xs = [torch.full((rows, 4), 1.0 + rows) for rows in (2, 3, 1, 2, 5)]
    counted_by_hand()
    want = [COUNTERS[name](x) for x in xs]
    counted_by_hand()
    compiled = escapement.jit(COUNTERS[name])
    for x, expected in zip(xs, want):
        torch.testing.assert_close(compiled(x), expected)
    counted_by_hand()


def test_a_generator_without_a_state():
    """The system's: what it draws is another number at each call."""
    generator = random.SystemRandom()
    compiled = escapement.jit(lambda x: x * generator.random())
    assert len({compiled(torch.ones(1)).item() for _ in range(6)}) == 6


GENERATORS = {"default_rng": lambda: np.random.default_rng(0), "RandomState": lambda: np.random.RandomState(0), "Random": lambda: random.Random(0)}


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generator_of_the_programs_own(name):
    results = []
    for wrap in (lambda function: function, escapement.jit):
        generator = GENERATORS[name]()
        draw = generator.rand if name == "RandomState" else generator.random
        program = wrap(lambda x, generator=generator, draw=draw: x * float(draw()))
        results.append([program(torch.ones(rows)) for rows in (2, 3, 1, 2, 2)])
    for ours, eager in zip(*results):
        torch.testing.assert_close(ours, eager)


def test_hooks_of_all_modules():
    module, x = torch.nn.Sequential(torch.nn.ReLU()), torch.ones(2, 4)
    compiled = escapement.jit(module)
    compiled(x), compiled(x)
    hook = torch.nn.modules.module.register_module_forward_hook(lambda module, given, result: result * 7)
    try:
        torch.testing.assert_close(compiled(x), module(x))
    finally:
        hook.remove()
    torch.testing.assert_close(compiled(x), module(x))


def test_methods_that_nobody_calls_are_not_read():
    class Logged:
        def __init__(self):
            self.scale, self.calls = 2.0, 0

        def __call__(self, x):
            return x * self.scale

        def report(self):
            return f"{self.calls} calls"

    logged = Logged()
    compiled = escapement.jit(logged)
    for step in range(40):
        logged.calls = step
        compiled(torch.ones(2, 4))
    assert compiled.info()["recordings"] == 1 and not compiled.info()["eager"]


# --- numbers of a recording in the program's hands

KEPT = {"list": [], "deque": collections.deque(maxlen=8), "dict": {}, "in tuples": [], "in dicts": []}


def keep(x):
    n = x.shape[0]
    KEPT["list"].append(n)
    KEPT["deque"].append(x.mean().item())
    KEPT["dict"][n] = n + 1
    KEPT["in tuples"].append((n, (n + 1,)))
    KEPT["in dicts"].append({"n": n, "all": [n]})
    return x * 2


def test_numbers_that_are_kept_are_numbers():
    compiled = escapement.jit(keep)
    for rows in (3, 4, 3, 5):
        compiled(torch.ones(rows))
    assert KEPT["list"] == [3, 4, 3, 5] and KEPT["dict"] == {3: 4, 4: 5, 5: 6}
    text = json.dumps({**KEPT, "deque": list(KEPT["deque"])})
    assert json.loads(text)["in tuples"] == [[3, [4]], [4, [5]], [3, [4]], [5, [6]]]


weight = torch.zeros(3)
OUTPUTS = {
    "isnan": lambda loss, x: bool(np.isnan(loss.item())), "exp": lambda loss, x: float(np.exp(loss.item())), "log of a size": lambda loss, x: float(np.log(x.shape[0])), "sqrt of a size": lambda loss, x: float(np.sqrt(x.shape[1])),
    "json": lambda loss, x: json.dumps({"loss": loss.item(), "n": x.shape[0], "sizes": [*x.shape]}), "maximum": lambda loss, x: int(np.maximum(x.shape[0], 3)), "times": lambda loss, x: float(np.float64(2) * x.shape[0]),
    "array": lambda loss, x: float(np.sqrt(np.array([loss.item(), 2.0])).sum()), "type of an array": lambda loss, x: str(np.array([loss.item()]).dtype), "types": lambda loss, x: [str(np.asarray(loss.item()).dtype), str(np.array([[loss.item()]], dtype=np.float32).dtype)],
    "mean": lambda loss, x: float(np.mean([loss.item(), loss.item() + 1])), "objects": lambda loss, x: float(np.array([loss.item(), None], dtype=object)[0] + 1),
    "product of sizes": lambda loss, x: int(np.prod(x.shape)),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_numpy_and_json_behind_a_write(name):
    def train(x, y):
        error = x @ weight - y
        weight.sub_(x.t() @ error, alpha=0.125)
        return OUTPUTS[name](error.square().mean(), x)

    compiled = escapement.jit(train)
    for rows in (4, 2, 1, 4):
        x, y, found = torch.ones(rows, 3), torch.arange(float(rows)), []
        for call in (train, compiled):
            weight.zero_()
            found.append(call(x, y))
        assert found[0] == found[1], found


@torch.no_grad()
def test_scaled_by_a_root_of_numpys():
    escapement.reset()
    compiled = escapement.jit(lambda q: (q @ q.mT / np.sqrt(q.shape[-1])).softmax(-1) @ q)
    for batch, length in ((2, 5), (1, 3), (3, 1), (0, 4)):
        q = torch.randn(batch, length, 8)
        torch.testing.assert_close(compiled(q), (q @ q.mT / np.sqrt(8)).softmax(-1) @ q)
    assert compiled.info()["recordings"] == 1 and not compiled.info()["eager"]
