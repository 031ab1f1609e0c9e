"""Methods that are replaced in their class, by whatever name Python finds them: under torch.compile, whose tracer guards only some of them itself, and in
call mode. What was replaced and put back is served by what was compiled before.
"""

import pytest
import torch

import escapement

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def act(self, x):
        return x.relu()

    def forward(self, x):
        return self.inner(self.act(x))


class Inner(torch.nn.Module):
    def forward(self, x):
        return x + 1


class Base:
    def inherited(self, x):
        return x.relu()


class Config(Base):
    def act(self, x):
        return x.relu()

    def through(self, x):
        return self.act(x) + 1

    @staticmethod
    def alone(x):
        return x.relu()

    @classmethod
    def of_class(cls, x):
        return x.relu()

    @property
    def scale(self):
        return 2.0

    def __call__(self, x):
        return x * 2

    def __getitem__(self, i):
        return 2.0

    def __len__(self):
        return 2

    def __add__(self, other):
        return other + 2

    def __bool__(self):
        return True

    def __contains__(self, other):
        return True

    def __getattr__(self, name):
        return 2.0

    def __iter__(self):
        return iter([2.0])

    def __enter__(self):
        return 2.0

    def __exit__(self, *error):
        pass

    def __float__(self):
        return 2.0


config, net = Config(), Net()


def entered(x):
    with config as value:
        return x * value


# (program, class, name, what stands there instead)
CASES = {
    "module's method": (net, Net, "act", lambda self, x: x - 1), "module's forward": (net, Net, "forward", lambda self, x: x * 5), "inner module's forward": (net, Inner, "forward", lambda self, x: x * 5),
    "method": (lambda x: config.act(x), Config, "act", lambda self, x: x - 1), "method of a method": (lambda x: config.through(x), Config, "act", lambda self, x: x - 1),
    "inherited": (lambda x: config.inherited(x), Base, "inherited", lambda self, x: x - 1), "static": (lambda x: config.alone(x), Config, "alone", staticmethod(lambda x: x - 1)),
    "of a class": (lambda x: Config.of_class(x), Config, "of_class", classmethod(lambda cls, x: x - 1)), "property": (lambda x: x * config.scale, Config, "scale", property(lambda self: 5.0)),
    "call": (lambda x: config(x), Config, "__call__", lambda self, x: x - 1), "item": (lambda x: x * config[0], Config, "__getitem__", lambda self, i: 5.0),
    "length": (lambda x: x * len(config), Config, "__len__", lambda self: 5), "sum": (lambda x: x * (config + 3), Config, "__add__", lambda self, other: 7),
    "truth": (lambda x: x * 2 if config else x, Config, "__bool__", lambda self: False), "contains": (lambda x: x * 2 if 3 in config else x, Config, "__contains__", lambda self, other: False),
    "attribute": (lambda x: x * config.other, Config, "__getattr__", lambda self, name: 5.0), "walk": (lambda x: x * sum(value for value in config), Config, "__iter__", lambda self: iter([5.0])),
    "context": (entered, Config, "__enter__", lambda self: 5.0), "float": (lambda x: x * float(config), Config, "__float__", lambda self: 5.0),
    "made inside": (lambda x: Config().act(x), Config, "act", lambda self, x: x - 1), "function of a class": (lambda x: Config.act(config, x), Config, "act", lambda self, x: x - 1),
}


@pytest.mark.parametrize("way", ["compile", "call"])
@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_a_replaced_method_runs(name, way):
    program, kind, method, other = CASES[name]
    stood = vars(kind)[method]
    function = torch.compile(program, backend="escapement") if way == "compile" else escapement.jit(program)
    try:
        for member in (stood, other, stood, other):
            setattr(kind, method, member)
            for size in (3, 1, 0, 7):
                x = torch.randn(size)
                assert torch.equal(function(x), program(x)), (member is stood, size)
    finally:
        setattr(kind, method, stood)
    stats = escapement.stats()
    assert (stats["dynamo"]["compiles"] if way == "compile" else function.info()["recordings"]) <= 2, stats
    assert way == "compile" or not function.info()["eager"], function.info()
    if (name, way) == ("context", "compile"):
        return   # Dynamo enters no context manager of the program's own: the frame runs eagerly
    assert stats["dynamo"]["specialised_dims"] == 0 and stats.get("hits", 0) > 0 and stats.get("launches", 0) > 0, stats


def function_of(member):
    return member.__func__ if isinstance(member, (staticmethod, classmethod)) else member.fget if isinstance(member, property) else member


@pytest.mark.parametrize("way", ["compile", "call", "replay"])
@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_other_code_in_the_same_function_runs(name, way):
    """How a notebook reloads a file."""
    program, kind, method, other = CASES[name]
    stood, other = function_of(vars(kind)[method]), function_of(other)
    function = torch.compile(program, backend="escapement") if way == "compile" else escapement.jit(program, mode=way)
    codes = stood.__code__, other.__code__
    try:
        for code in (*codes, *codes):
            stood.__code__ = code
            for size in (3, 1, 0, 7):
                x = torch.randn(size)
                assert torch.equal(function(x), program(x)), (code is codes[0], size)
    finally:
        stood.__code__ = codes[0]


@pytest.mark.parametrize("way", ["compile", "call", "replay"])
@torch.no_grad()
def test_other_defaults_are_taken(way):
    class Scaled:
        def times(self, x, factor=2, *, shift=1):
            return x * factor + shift

    scaled, times = Scaled(), Scaled.times
    function = torch.compile(lambda x: scaled.times(x), backend="escapement") if way == "compile" else escapement.jit(lambda x: scaled.times(x), mode=way)
    for factor, shift in ((2, 1), (5, 1), (5, 3), (2, 1)):
        times.__defaults__, times.__kwdefaults__ = (factor,), {"shift": shift}
        for size in (3, 1):
            assert function(torch.ones(size)).tolist() == [factor + shift] * size
    times.__kwdefaults__["shift"] = 7
    assert function(torch.ones(2)).tolist() == [9, 9]


@pytest.mark.parametrize("way", ["compile", "call"])
@torch.no_grad()
def test_an_override_comes_and_goes(way):
    function = torch.compile(lambda x: config.inherited(x), backend="escapement") if way == "compile" else escapement.jit(lambda x: config.inherited(x))
    for _ in range(2):
        for size in (3, 1, 0):
            x = torch.randn(size)
            assert torch.equal(function(x), x.relu())
        Config.inherited = lambda self, x: x - 1
        for size in (3, 1, 0):
            x = torch.randn(size)
            assert torch.equal(function(x), x - 1)
        del Config.inherited


@torch.no_grad()
def test_other_attributes_of_a_class_are_no_compile():
    function = torch.compile(lambda x: config.through(x), backend="escapement")
    function(torch.randn(3))
    for value in range(4):
        Config.note = value
        function(torch.randn(4 + value))
    del Config.note
    assert escapement.stats()["dynamo"]["compiles"] == 1 and escapement.stats()["dynamo"]["specialised_dims"] == 0


@torch.no_grad()
def test_a_frame_that_breaks_holds_them_too():
    """Behind a graph break, and where what was inlined is taken back."""
    def breaks(x):
        torch._dynamo.graph_break()
        return config.through(x)

    def program(x):
        y = config.act(x)
        return breaks(y) + config.act(y - 1)

    function, stood = torch.compile(program, backend="escapement"), Config.act
    try:
        for member in (stood, lambda self, x: x - 1, stood, lambda self, x: x * 3):
            Config.act = member
            for size in (3, 1, 5):
                x = torch.randn(size)
                assert torch.equal(function(x), program(x))
    finally:
        Config.act = stood
