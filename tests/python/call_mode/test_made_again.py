"""`__init__` that runs on an object that is there already: what it writes there it writes at every call. What it gives new objects is nobody's state."""

import threading
import typing

import pytest
import torch

import escapement

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]


class Single:
    one = None

    def __new__(cls):
        cls.one = cls.one or super().__new__(cls)
        return cls.one

    def __init__(self):
        self.step = 0


class Derived(Single):
    one = None


class Meta(type):
    made = {}

    def __call__(cls, *args):
        if cls not in Meta.made:
            Meta.made[cls] = cls.__new__(cls)
        Meta.made[cls].__init__(*args)
        return Meta.made[cls]


class OfMeta(metaclass=Meta):
    def __init__(self):
        self.step = 0


class Base:
    def __init__(self):
        self.step = 0


class Clearing(Base):
    def clear(self):
        super().__init__()


class Slotted:
    __slots__ = ("step",)

    def __init__(self):
        self.step = 0

    def clear(self):
        self.__init__()


clearing, slotted, base = Clearing(), Slotted(), Base()
WRITING = {
    "singleton": (Single, Single()), "derived": (Derived, Derived()), "metaclass": (OfMeta, OfMeta()), "super": (clearing.clear, clearing), "slots": (slotted.clear, slotted),
    "called": (lambda: base.__init__(), base), "of the class": (lambda: Base.__init__(base), base), "by a text": (lambda: getattr(base, "__init__")(), base),
}


@pytest.mark.parametrize("name", WRITING)
@torch.no_grad()
def test_it_is_written_at_every_call(name):
    write, owner = WRITING[name]
    function = escapement.jit(lambda x: (write(), x + 1)[1])
    for step in (0, 1, 2, 0, 3):
        owner.step = step
        assert function(torch.ones(2)).tolist() == [2.0, 2.0]
        assert owner.step == 0


class Point(typing.NamedTuple):
    width: float


class New(Base):
    def __init__(self, width):
        super().__init__()
        self.width, self.calls, self.lock = width, 0, threading.Lock()


kept = New(1.0)


@pytest.mark.parametrize("function", [lambda x: x * New(3.0).width, lambda x: x * Point(New(3.0).width).width], ids=["class", "beside a named tuple"])
@torch.no_grad()
def test_what_new_objects_get_is_not_watched(function):
    compiled = escapement.jit(lambda x: function(x) + kept.width - 1)
    for call in range(6):
        kept.calls = kept.step = call
        assert compiled(torch.ones(call)).tolist() == [3.0] * call
    info = compiled.info()
    assert info["recordings"] <= 2 and not info["eager"] and sum(version["hits"] for region in info["regions"] for version in region["versions"]) >= 4, info
