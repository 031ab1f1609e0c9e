"""What a function reads in installed packages is watched too: somebody's own company may have installed the program."""

import importlib
import sys
import textwrap

import pytest
import torch

import escapement

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]

FILES = {
    "__init__.py": "",
    "settings.py": """
        import dataclasses

        SCALE, KIND, SEEN = 2.0, "plain", 0

        @dataclasses.dataclass
        class Settings:
            scale: float = 3.0
            kinds: dict = dataclasses.field(default_factory=lambda: {"gain": 4.0})
            BIAS = 1.0

        CURRENT, TABLE = Settings(), [1.0, 2.0]
    """,
    "deep.py": """
        from . import settings
        from .settings import CURRENT

        def by_value(x):
            return x * settings.SCALE

        def by_object(x):
            return x * CURRENT.scale * CURRENT.kinds["gain"] + CURRENT.BIAS

        def by_list(x):
            return x * settings.TABLE[1]

        def imported_inside(x):
            from .settings import KIND
            return x.exp() if KIND == "exp" else x * 2

        def of_type(x, n):
            return x * (2 if type(n) is int else 3)
    """,
    "parts.py": """
        import torch
        import torch.nn.functional as F
        from torch.nn.functional import softsign
        from . import deep

        class Part(torch.nn.Module):
            def forward(self, x):
                return self.inner(x) + self.gain()

            def inner(self, x):
                return x * 3

            @staticmethod
            def gain():
                return 1.0

            @property
            def size(self):
                return 2

        class Whole(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.part, self.names = Part(), REGISTRY

            def forward(self, x):
                made = Made()
                x = helper(self.part(x)) * self.part.size
                x = self.names["activation"](x) + made(x) + deep.by_value(x)
                return softsign(x) + F.hardswish(x) + torch.nn.functional.gelu(x) + torch.erf(x) + x.sinh() * round(2.4) + tail(x)

        class Made:
            def __call__(self, x):
                return x * 0.5

        def helper(x):
            return x - 1

        def tail(x):
            return torch.nn.functional.relu(x)

        REGISTRY = {"activation": torch.tanh}
    """,
    "model.py": """
        import torch
        from . import deep, settings

        class Net(torch.nn.Module):
            def forward(self, x):
                return deep.by_object(x) + self.gain() if settings.KIND == "plain" else x

            def gain(self):
                return settings.SCALE

        class Base(torch.nn.Module):
            def forward(self, x):
                return x * self.factor

        class Plain:
            def __call__(self, x):
                return x * self.factor
    """,
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    home = tmp_path / "site-packages" / "installed_by_somebody"
    home.mkdir(parents=True)
    for name, text in FILES.items():
        (home / name).write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(str(home.parent))
    yield importlib.import_module(home.name + ".model")
    for name in [name for name in sys.modules if name.startswith(home.name)]:
        del sys.modules[name]


def set_scale(settings, value):
    settings.SCALE = value


def set_object(settings, value):
    settings.CURRENT.scale = value


def set_in_dict(settings, value):
    settings.CURRENT.kinds["gain"] = value


def set_of_class(settings, value):
    settings.Settings.BIAS = value


def set_item(settings, value):
    settings.TABLE[1] = value


def set_kind(settings, value):
    settings.KIND = "exp" if value > 6 else "plain"


ROWS = {
    "value": (lambda model: lambda x: x * model.settings.SCALE, set_scale), "object": (lambda model: lambda x: x * model.settings.CURRENT.scale, set_object),
    "function: value": (lambda model: lambda x: model.deep.by_value(x), set_scale), "function: object": (lambda model: lambda x: model.deep.by_object(x), set_object),
    "function: dict": (lambda model: model.deep.by_object, set_in_dict), "function: class": (lambda model: lambda x: model.deep.by_object(x), set_of_class),
    "function: list": (lambda model: model.deep.by_list, set_item), "function: import": (lambda model: lambda x: model.deep.imported_inside(x), set_kind),
    "module: value": (lambda model: model.Net(), set_scale), "module: object": (lambda model: model.Net(), set_object), "module: kind": (lambda model: torch.nn.Sequential(model.Net()), set_kind),
}


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("row", ROWS)
def test_each_change_is_noticed(package, row, gradients):
    make, change = ROWS[row]
    program = make(package)
    function = escapement.jit(program)
    with torch.set_grad_enabled(gradients):
        for value in (5.0, 7.0, 5.0, 8.0):
            change(package.settings, value)
            for size in (3, 1, 0, 7):
                x = torch.rand(size)
                torch.testing.assert_close(function(x), program(x))
    assert function.info()["recordings"] <= 3 and not function.info()["eager"], function.info()


def to(owner, name, value):
    """Puts something else there, as a library that patches another one does; what it is called to end that."""
    before = vars(owner).get(name)
    setattr(owner, name, value)
    return lambda: delattr(owner, name) if before is None else setattr(owner, name, before)


def in_registry(parts):
    parts.REGISTRY["activation"] = torch.sigmoid
    return lambda: parts.REGISTRY.update(activation=torch.tanh)


def other_code(parts):
    before, parts.helper.__code__ = parts.helper.__code__, (lambda x: x * 5).__code__
    return lambda: setattr(parts.helper, "__code__", before)


F = torch.nn.functional
PATCHES = {
    "function": lambda parts: to(parts, "helper", lambda x: x * 4), "class": lambda parts: to(parts, "Made", lambda: torch.neg), "method": lambda parts: to(parts.Part, "inner", lambda self, x: x * 7),
    "forward": lambda parts: to(parts.Part, "forward", lambda self, x: x * 7), "static method": lambda parts: to(parts.Part, "gain", staticmethod(lambda: 5.0)),
    "property": lambda parts: to(parts.Part, "size", property(lambda self: 3)), "call": lambda parts: to(parts.Made, "__call__", lambda self, x: x * 9), "function of another file": lambda parts: to(parts.deep, "by_value", torch.cos),
    "imported function": lambda parts: to(parts, "softsign", torch.cos), "module": lambda parts: to(parts, "deep", __import__("types").SimpleNamespace(by_value=torch.cos)), "registry": in_registry, "code": other_code,
    "builtin": lambda parts: to(parts, "round", lambda number: 7), "F": lambda parts: to(F, "hardswish", torch.cos), "torch.nn.functional": lambda parts: to(F, "gelu", torch.cos), "torch.nn.functional beside another": lambda parts: to(F, "relu", torch.cos),
    "torch": lambda parts: to(torch, "erf", torch.cos), "method of tensors": lambda parts: to(torch.Tensor, "sinh", torch.Tensor.cosh), "library in its place": lambda parts: to(parts, "F", __import__("types").SimpleNamespace(hardswish=torch.cos)),
}


@pytest.mark.parametrize("patch", PATCHES)
@torch.no_grad()
def test_what_is_exchanged_there(package, patch):
    parts = importlib.import_module(package.__package__ + ".parts")
    whole = parts.Whole()
    function = escapement.jit(whole)

    def compare():
        found = []
        for size in (3, 1, 0, 7):
            x = torch.linspace(-1.3, 1.7, 2 * size).view(size, 2)
            torch.testing.assert_close(function(x), whole(x))
            found.append(whole(x))
        return found

    before = compare()
    for _ in range(2):
        back = PATCHES[patch](parts)
        try:
            assert not torch.equal(compare()[0], before[0])
        finally:
            back()
        compare()
    assert function.info()["recordings"] <= 3 and not function.info()["eager"], function.info()


@pytest.mark.parametrize("base", ["Base", "Plain"])
@torch.no_grad()
def test_what_a_packages_base_reads_of_the_programs_own(package, base):
    class Own(getattr(package, base)):
        def __init__(self):
            super().__init__()
            self.factor = 2.0

    own = Own()
    function = escapement.jit(own)
    for value in (5.0, 7.0, 5.0):
        own.factor = value
        for size in (3, 1, 0, 7):
            assert torch.equal(function(torch.ones(size)), torch.ones(size) * value)
    assert function.info()["recordings"] <= 3 and not function.info()["eager"], function.info()


@torch.no_grad()
def test_what_nobody_there_reads_costs_nothing(package):
    function = escapement.jit(package.Net())
    for step in range(20):
        package.settings.SEEN, package.settings.by_somebody = step, step
        function(torch.ones(3))
    assert function.info()["recordings"] == 1 and not function.info()["eager"]


@torch.no_grad()
def test_a_number_has_a_type_there(package):
    function = escapement.jit(lambda x: package.deep.of_type(x, x.shape[0]))
    for size in (3, 1, 0, 7):
        assert torch.equal(function(torch.ones(size)), torch.ones(size) * 2)
    assert function.info()["recordings"] == 1 and not function.info()["eager"]
