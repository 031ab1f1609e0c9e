"""Members of a module that change their names and nothing else: what a dict of the module's holds is the same, in the same order."""

import pytest
import torch

import escapement

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.a(x)


class Weights(torch.nn.Module):
    def __init__(self, make):
        super().__init__()
        make(self, "a"), make(self, "b")

    def forward(self, x):
        return x + self.a


def parameter(module, name):
    setattr(module, name, torch.nn.Parameter(torch.randn(3)))


def buffer(module, name):
    module.register_buffer(name, torch.randn(3))


def exchange(module):
    a, b = module.a, module.b
    del module.a, module.b
    for name, value in (("b", a), ("a", b)):
        module.register_buffer(name, value) if type(value) is torch.Tensor else setattr(module, name, value)


@pytest.mark.parametrize("make", [Layers, lambda: Weights(parameter), lambda: Weights(buffer)], ids=["layers", "parameters", "buffers"])
@torch.no_grad()
def test_exchanged(make):
    module, x = make(), torch.randn(2, 3)
    jitted = escapement.jit(module)
    for _ in range(3):
        torch.testing.assert_close(jitted(x), module(x))
    before = module(x)
    exchange(module)
    assert not torch.allclose(before, module(x))
    for _ in range(3):
        torch.testing.assert_close(jitted(x), module(x))
    assert not jitted.info()["eager"]


class Named(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.items = torch.nn.ModuleDict({"a": torch.nn.Linear(3, 3)})

    def forward(self, x):
        return x * len(next(iter(self.items)))


@torch.no_grad()
def test_a_name_that_is_read():
    module, x = Named(), torch.ones(3)
    jitted = escapement.jit(module)
    for name in ("a", "a", "bcd", "bcd", "ef"):
        if name not in module.items:
            module.items[name] = module.items.pop(next(iter(module.items)))
        torch.testing.assert_close(jitted(x), x * len(name))


def double(*arguments):
    return arguments[-1] * (2 if len(arguments) == 3 else 3)


def more(*arguments):
    return arguments[-1] + (1 if len(arguments) == 3 else 5)


class Hooked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x)


@torch.no_grad()
def test_hooks():
    """Which of them want keywords is said by their numbers. The same ones again, under other numbers, are no other program."""
    module, x = Hooked(), torch.randn(2, 3)
    jitted = escapement.jit(module)
    handles = []
    for wants in ((True, False), (True, False), (False, True), (True, True), (False, False), (False, False)):
        for handle in handles:
            handle.remove()
        handles = [module.layer.register_forward_hook(hook, with_kwargs=w) for hook, w in zip((double, more), wants)]
        for _ in range(2):
            torch.testing.assert_close(jitted(x), module(x))
    assert not jitted.info()["eager"]


@torch.no_grad()
def test_hooks_that_come_again():
    module, x = Hooked(), torch.randn(2, 3)
    jitted = escapement.jit(module)
    recorded = []
    for _ in range(6):
        handle = module.layer.register_forward_hook(double, with_kwargs=True)
        torch.testing.assert_close(jitted(x), module(x))
        handle.remove()
        recorded.append(escapement.stats()["recordings"])
    assert len(set(recorded)) == 1
