"""Compiled methods in every way that a class gets one: one recording an object or one for all, the object's own results, and no object kept alive."""
import copy
import dataclasses
import gc
import typing
import weakref

import pytest
import torch

import escapement


def assigned_forward():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3), requires_grad=False)

        def forward(self, x):
            return x * self.weight

    Net.forward = escapement.jit(Net.forward)
    return Net(), lambda net, x: net(x)


def assigned_method():
    class Plain:
        k = 2.0

        def go(self, x):
            return x * self.k

    Plain.go = escapement.jit(Plain.go)
    return Plain(), lambda plain, x: plain.go(x)


def decorated_call():
    class Plain:
        k = 2.0

        @escapement.jit
        def __call__(self, x):
            return x * self.k

    return Plain(), lambda plain, x: plain(x)


def assigned_call():
    class Plain:
        k = 2.0

        def __call__(self, x):
            return x * self.k

    Plain.__call__ = escapement.jit(Plain.__call__)
    return Plain(), lambda plain, x: plain(x)


def with_slots():
    class Slotted:
        __slots__ = ("k",)

        def __init__(self):
            self.k = 2.0

        @escapement.jit
        def go(self, x):
            return x * self.k

    return Slotted(), lambda slotted, x: slotted.go(x)


def of_a_tuple():
    class Pair(typing.NamedTuple):
        a: torch.Tensor
        b: torch.Tensor

        def go(self, x):
            return x * self.a + self.b

    Pair.go = escapement.jit(Pair.go)
    return Pair(torch.ones(3), torch.ones(3)), lambda pair, x: pair.go(x)


def frozen_dataclass():
    @dataclasses.dataclass(frozen=True)
    class Frozen:
        k: float = 2.0

        @escapement.jit
        def go(self, x):
            return x * self.k

    return Frozen(), lambda frozen, x: frozen.go(x)


def of_a_class():
    class Plain:
        k = 2.0

        @classmethod
        @escapement.jit
        def go(cls, x):
            return x * cls.k

    return Plain(), lambda plain, x: plain.go(x)


def inherited():
    class Base:
        k = 2.0

        @escapement.jit
        def go(self, x):
            return x * self.k

    class Child(Base):
        @escapement.jit
        def go(self, x):
            return super().go(x) + 1

    return Child(), lambda child, x: child.go(x)


def unhashable():
    class Plain:
        k = 2.0
        __hash__ = None

        def go(self, x):
            return x * self.k

    Plain.go = escapement.jit(Plain.go)
    return Plain(), lambda plain, x: plain.go(x)


KINDS = [assigned_forward, assigned_method, decorated_call, assigned_call, with_slots, of_a_tuple, frozen_dataclass, of_a_class, inherited, unhashable]


def recorded():
    return escapement.stats().get("recordings", 0)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@torch.no_grad()
def test_one_recording(kind):
    owner, call = kind()
    before = recorded()
    for rows in (2, 5, 1, 7, 3, 2, 9):
        x = torch.randn(rows, 3)
        wanted = x + 1 if kind is of_a_tuple else x if kind is assigned_forward else x * 2 + (kind is inherited)
        torch.testing.assert_close(call(owner, x), wanted)
    assert recorded() - before <= 2, recorded() - before


@pytest.mark.parametrize("kind", [assigned_method, decorated_call, assigned_call, assigned_forward], ids=lambda kind: kind.__name__)
@torch.no_grad()
def test_each_object_is_itself(kind):
    owner, call = kind()
    other = copy.deepcopy(owner)
    x = torch.ones(2, 3)
    call(owner, x)
    if kind is assigned_forward:
        other.weight.fill_(5)
    else:
        other.k = 5.0
    for _ in range(3):
        assert torch.equal(call(other, x), x * 5) and not torch.equal(call(owner, x), x * 5)


@pytest.mark.parametrize("kind", [assigned_method, assigned_call, frozen_dataclass, with_slots, unhashable], ids=lambda kind: kind.__name__)
@torch.no_grad()
def test_no_object_is_kept(kind):
    owner, call = kind()
    call(owner, torch.ones(2, 3))
    if not hasattr(owner, "__weakref__"):
        return
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None


@torch.no_grad()
def test_a_method_that_another_replaces():
    class Plain:
        def go(self, x):
            return x * 2

    Plain.go = escapement.jit(Plain.go)
    plain, x = Plain(), torch.ones(3)
    plain.go(x)
    first = plain.go
    assert plain.go is first and "go" not in vars(plain)   # where Python would find it before what the class says later
    with pytest.raises(AttributeError):
        del plain.go   # as in eager: the object has none of its own
    assert plain.go is first and torch.equal(plain.go(x), x * 2)
