"""Attributes that an object or module did not have when it was recorded, and classes that change: both are noticed, and what nobody reads costs nothing for good."""

import argparse
import types

import pytest
import torch

import escapement

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]


own_settings = types.ModuleType("own_settings")
own_settings.__file__ = __file__   # no library's


class Net(torch.nn.Module):
    scale = 1.0

    def __init__(self, read=None):
        super().__init__()
        self.layer, self.read = torch.nn.Linear(3, 3), read

    def forward(self, x):
        return self.read(self, self.layer(x)) if self.read else self.layer(x)


class Config:
    scale = 1.0


def has(o, x):
    return x * 2 if hasattr(o, "late") else x


def get(o, x):
    return x * getattr(o, "late", 1.0)


def tries(o, x):
    try:
        return x * o.late
    except AttributeError:
        return x - 1


def names(o, x):
    return x * len(vars(o))


def hides(o, x):
    return x * getattr(o, "scale", 1.0)


READS = [has, get, tries, names]


# (where the attribute comes, the program)
def of_module(read):
    net = Net(read)
    return net, net


def of_submodule(read):
    net = Net(lambda self, x: read(self.layer, x))
    return net.layer, net


def of_library_module(read):
    layer = torch.nn.Linear(3, 3)
    return layer, lambda x: read(layer, layer(x))


def of_object(read):
    config = Config()
    return config, lambda x: read(config, x + 1)


def of_namespace(read):
    config = types.SimpleNamespace(a=1)
    return config, lambda x: read(config, x + 1)


def of_arguments(read):
    config = argparse.Namespace(a=1)
    return config, lambda x: read(config, x + 1)


def in_attribute(read):
    net = Net(lambda self, x: read(self.config, x))
    net.config = Config()
    return net.config, net


def of_class(read):
    kind = type("Own", (Config,), {"__module__": __name__})
    config = kind()
    return kind, lambda x: read(config, x + 1)


def of_module_class(read):
    kind = type("Own", (Net,), {"__module__": __name__})
    return kind, kind(read)


def of_python_module(read):
    return own_settings, lambda x: read(own_settings, x + 1)


OWNERS = [of_class, of_module_class, of_python_module, of_module, of_submodule, of_library_module, of_object, of_namespace, of_arguments, in_attribute]


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("read", READS)
@torch.no_grad()
def test_an_attribute_comes_and_goes(owner, read):
    if read is names and owner in (of_class, of_module_class):
        pytest.skip("vars() of an object says nothing of its class")
    held, program = owner(read)
    function = escapement.jit(program)
    for turn in range(3):
        for size in (3, 1, 0):
            x = torch.rand(size, 3)
            assert torch.equal(function(x), program(x)), (turn, size)
        held.late = 2.0 + turn % 2
        for size in (2, 1, 0):
            x = torch.rand(size, 3)
            assert torch.equal(function(x), program(x)), (turn, size)
        del held.late
    assert not function.info()["eager"] and function.info()["recordings"] <= 3, function.info()   # without it, and with two values
    before = escapement.stats()["recordings"]
    held.late = 3.0
    function(torch.rand(5, 3))
    assert escapement.stats()["recordings"] == before


@pytest.mark.parametrize("owner", [of_module, of_library_module, of_object, in_attribute])
@torch.no_grad()
def test_one_hides_its_class_s(owner):
    held, program = owner(hides)
    function = escapement.jit(program)
    for value in (None, 2.0, None, 3.0):
        if value is not None:
            held.scale = value
        elif "scale" in vars(held):
            del held.scale
        x = torch.rand(4, 3)
        assert torch.equal(function(x), program(x)), value


@torch.no_grad()
def test_what_nobody_reads():
    """Counted as met again, not recorded anew, and afterwards calls are as quick as before: none reaches Python."""
    net = Net()
    function = escapement.jit(net)
    function(torch.rand(2, 3))
    for name in ("note", "other", "third"):
        setattr(net, name, name)
        setattr(net.layer, name, name)
        for size in (3, 1, 4):
            x = torch.rand(size, 3)
            assert torch.equal(function(x), net(x))
    assert function.info()["recordings"] == 1
    calls, known = [], type(function)._call
    type(function)._call = lambda self, *given: calls.append(1) or known(self, *given)
    try:
        for size in (3, 1, 4):
            function(torch.rand(size, 3))
    finally:
        type(function)._call = known
    assert not calls


@torch.no_grad()
def test_two_attributes_of_one_value():
    """The same values under other names are another state."""
    config = Config()

    def program(x):
        return x * getattr(config, "gain", 1.0) + getattr(config, "shift", 0.0)

    function = escapement.jit(program)
    for name in (None, "gain", "shift", None, "shift", "gain"):
        vars(config).clear()
        for value in (3.0, 4.0):
            if name:
                setattr(config, name, value)
            assert torch.equal(function(torch.ones(2)), program(torch.ones(2))), name
    assert function.info()["recordings"] == 5


@torch.no_grad()
def test_a_tensor_comes():
    config = Config()
    function = escapement.jit(lambda x: x * getattr(config, "weight", 1.0))
    for weight in (None, torch.full((), 2.0), torch.full((), 5.0), None, torch.full((), 7.0)):
        vars(config).clear()
        if weight is not None:
            config.weight = weight
        expected = 1.0 if weight is None else weight.item()
        for size in (2, 1):
            assert function(torch.ones(size)).tolist() == [expected] * size


@torch.no_grad()
def test_another_dict_of_attributes():
    config, other = Config(), Config()
    other.gain = 3.0
    function = escapement.jit(lambda x: x * getattr(config, "gain", 1.0))
    for space in (vars(config), vars(other), {"gain": 4.0}, {"note": 1}, {"gain": 4.0}):
        config.__dict__ = space
        for size in (2, 1):
            assert function(torch.ones(size)).tolist() == [space.get("gain", 1.0)] * size


class Other(Net):
    def forward(self, x):
        return self.layer(x) * 7


class OtherConfig(Config):
    @property
    def scale(self):
        return 5.0


@torch.no_grad()
def test_classes_change():
    net, config = Net(), Config()
    functions = [(escapement.jit(net), net), (escapement.jit(lambda x: x * config.scale), lambda x: x * config.scale)]
    for kinds in ((Net, Config), (Other, OtherConfig), (Net, Config), (Other, OtherConfig)):
        net.__class__, config.__class__ = kinds
        for function, program in functions:
            for size in (2, 1, 0):
                x = torch.rand(size, 3)
                assert torch.equal(function(x), program(x))
    assert all(function.info()["recordings"] == 2 for function, _ in functions)


@torch.no_grad()
def test_forward_is_replaced_on_the_object():
    """As libraries of hooks do it, on a module and on one inside of it."""
    net = Net()
    function = escapement.jit(net)
    for turn in range(3):
        x = torch.rand(2 + turn, 3)
        assert torch.equal(function(x), net(x))
        own = net.layer.forward
        net.layer.forward = lambda x, own=own: own(x) + 1
        assert torch.equal(function(x), net(x))
        net.forward = lambda x: x * 9
        assert torch.equal(function(x), x * 9)
        del net.forward, net.layer.forward
        assert torch.equal(function(x), net(x))
    assert not function.info()["eager"]
