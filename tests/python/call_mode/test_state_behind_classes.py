"""State that is read through an instance but hangs on its class, that makes objects, or that is reached by a method in C or by a name: each change is noticed."""

import abc
import collections
import contextvars
import functools
import importlib
import inspect
import logging
import operator
import pickle
import sys
import threading
import types
import weakref

import numpy as np
import pytest
import torch

import escapement

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]
GAIN, NAMES, EXPRESSION = 2.0, ["GAIN", "hidden"], "GAIN * 2"
find, all_of = getattr, vars   # under other names


def set_gain(value):
    globals()["GAIN"] = value


def scaled(x):
    return x * GAIN


class Reading:
    def gain(self):
        return GAIN

    @property
    def gain_now(self):
        return GAIN


class Slotted:
    __slots__ = ("value",)

    def __init__(self):
        self.value = 2.0


class DotDict(dict):
    __getattr__ = dict.__getitem__


class Local(threading.local):
    value = 2.0


def attribute(name):
    return lambda held, value: setattr(held, name, value)


def item(key):
    return lambda held, value: held.__setitem__(key, value)


# What a class holds: (how it is made, how it is changed, how a method reads it through `self`)
HELD = {
    "tensor": (lambda: torch.ones(()), None, lambda held, x: x * held), "tensor written": (lambda: torch.ones(()), lambda held, value: held.fill_(value), lambda held, x: x * held),
    "module": (lambda: torch.nn.Linear(1, 1), lambda held, value: setattr(held, "weight", torch.nn.Parameter(torch.full((1, 1), value), False)), lambda held, x: held(x[:, None])),
    "modules by name": (lambda: {"a": torch.nn.Linear(1, 1)}, lambda held, value: held.update(a=torch.nn.Softplus(value)), lambda held, x: held["a"](x[:, None])),
    "modules in a row": (lambda: [torch.nn.Softplus(1.0)], lambda held, value: held.insert(0, torch.nn.Softplus(value)), lambda held, x: functools.reduce(lambda y, layer: layer(y), held, x)),
    "method that reads a global": (Reading, lambda held, value: set_gain(value), lambda held, x: x * held.gain()), "property that reads one": (Reading, lambda held, value: set_gain(value), lambda held, x: x * held.gain_now),
    "functions": (lambda: [scaled], lambda held, value: set_gain(value), lambda held, x: held[0](x)), "functions by name": (lambda: {"a": scaled}, lambda held, value: set_gain(value), lambda held, x: held["a"](x)),
    "slots": (Slotted, attribute("value"), lambda held, x: x * held.value), "partial": (lambda: functools.partial(operator.mul, 2.0), None, lambda held, x: held(x)),
    "list": (lambda: collections.UserList([2.0]), item(0), lambda held, x: x * held[0]), "view of a dict": (lambda: types.MappingProxyType(VIEWED), lambda held, value: VIEWED.update(k=value), lambda held, x: x * held["k"]),
    "context variable": (lambda: contextvars.ContextVar("gain", default=2.0), lambda held, value: held.set(value), lambda held, x: x * held.get()), "thread local": (Local, attribute("value"), lambda held, x: x * held.value),
    "weak reference": (lambda: weakref.ref(Reading), lambda held, value: set_gain(value), lambda held, x: x * held()().gain()), "dict with dots": (lambda: DotDict(gain=2.0), item("gain"), lambda held, x: x * held.gain),
    "class": (lambda: type("Inner", (), {"gain": 2.0, "__module__": __name__}), attribute("gain"), lambda held, x: x * held.gain), "class of objects": (lambda: type("Inner", (), {"gain": 2.0, "__module__": __name__}), attribute("gain"), lambda held, x: x * held().gain),
    "queue": (lambda: collections.deque([2.0], maxlen=3), lambda held, value: held.append(value), lambda held, x: x * held[-1]),
    "bound method": (lambda: Reading().gain, lambda held, value: set_gain(value), lambda held, x: x * held()), "number": (lambda: 2.0, None, lambda held, x: x * held),
}
VIEWED = {"k": 2.0}


def through_self(read):
    class Own:
        def __call__(self, x):
            return read(self.held, x)
    return Own, Own()


def through_a_base(read):
    class Base:
        pass

    class Own(Base):
        def __call__(self, x):
            return read(self.held, x)
    return Base, Own()


def through_a_module(read):
    class Net(torch.nn.Module):
        def forward(self, x):
            return read(self.held, x)
    return Net, Net()


def through_an_attribute(read):
    class Inner:
        pass

    inner = Inner()
    return Inner, lambda x: read(inner.held, x)


def through_its_name(read):
    class Own:
        pass

    return Own, lambda x: read(Own.held, x)


def compare(function, program, change, values=(5.0, 9.0, 5.0)):
    for value in values:
        change(value)
        for size in (3, 1, 0, 7):
            x = torch.rand(size)
            torch.testing.assert_close(function(x), program(x), msg=f"{value} at {size}")


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("way", [through_self, through_a_base, through_a_module, through_an_attribute, through_its_name])
@pytest.mark.parametrize("row", HELD)
def test_what_a_class_holds(row, way, gradients):
    make, change, read = HELD[row]
    set_gain(2.0)
    owner, program = way(read)
    owner.held = staticmethod(make()) if row == "bound method" else make()
    other = {"tensor": torch.tensor, "partial": lambda value: functools.partial(operator.mul, value), "number": float}.get(row)
    function = escapement.jit(program)
    with torch.set_grad_enabled(gradients and "module" not in row):
        compare(function, program, (lambda value: setattr(owner, "held", other(value))) if other else lambda value: change(owner.held, value))
    if other is None or row != "tensor":
        assert not function.info()["eager"], function.info()


# --- effects on what a class holds

class Plugin:
    seen = 0

    def __call__(self, x):
        self.seen += 1
        return x * 2

    def __enter__(self):
        self.seen += 1

    def __exit__(self, *_):
        pass


def called(self, x):
    return self.held(x)


def entered(self, x):
    with self.held:
        return x * 2


def counted(self, x):
    self.held.n = getattr(self.held, "n", 0) + 1
    return x * self.held.n


def appended(self, x):
    self.held.append(len(self.held))
    return x * len(self.held)


EFFECTS = {
    "plugin": (Plugin, called, lambda held: held.seen), "context manager": (Plugin, entered, lambda held: held.seen), "object": (Plugin, counted, lambda held: held.n),
    "thread local": (threading.local, counted, lambda held: held.n), "module": (torch.nn.ReLU, counted, lambda held: held.n), "list": (list, appended, len), "own list": (collections.UserList, appended, len),
}


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("row", EFFECTS)
def test_effects_on_what_a_class_holds(row, gradients):
    make, run, ask = EFFECTS[row]
    with torch.set_grad_enabled(gradients):
        found = []
        for wrap in (escapement.jit, lambda program: program):
            owner = type("Own", (), {"held": make(), "run": run, "__module__": __name__})
            program = wrap(owner().run)
            found.append(([program(torch.ones(2)).tolist() for _ in range(8)], ask(owner.held)))
        assert found[0] == found[1]


# --- objects that the function makes, writes into texts, or copies

LOG, TABLE = [], {"tensor": torch.ones(())}


class Made:
    def __init__(self):
        self.gain = GAIN


class MadeOfOthers:
    base = Reading()

    def __init__(self):
        self.gain = self.base.gain() + helper()


def helper():
    return GAIN


class MadeOfTensors:
    def __init__(self):
        self.gain = TABLE["tensor"]


class Logging:
    def __init__(self):
        LOG.append(1)


class Printed:
    def __init__(self):
        self.hidden = 2.0

    def __repr__(self):
        return "x" * int(self.hidden)


PRINTED = Printed()
MAKING = {
    "global": (lambda x: x * Made().gain, set_gain), "methods": (lambda x: x * MadeOfOthers().gain, set_gain), "tensor": (lambda x: x * MadeOfTensors().gain, lambda value: TABLE.update(tensor=torch.tensor(value))),
    "repr": (lambda x: x * len(repr(PRINTED)), lambda value: setattr(PRINTED, "hidden", value)), "text": (lambda x: x * len(f"{PRINTED}"), lambda value: setattr(PRINTED, "hidden", value)),
    "str": (lambda x: x * len(str(PRINTED)), lambda value: setattr(PRINTED, "hidden", value)), "format": (lambda x: x * len("{}".format(PRINTED)), lambda value: setattr(PRINTED, "hidden", value)),
}


@pytest.mark.parametrize("row", MAKING)
@torch.no_grad()
def test_what_is_read_to_make_an_object(row):
    program, change = MAKING[row]
    compare(escapement.jit(program), program, change)


@torch.no_grad()
def test_what_making_an_object_does():
    def program(x):
        Logging()
        return x * 2

    LOG.clear()
    function = escapement.jit(program)
    for _ in range(8):
        function(torch.ones(2))
    assert len(LOG) == 8


# --- methods in C, other names, modules by their names

class Own:
    __match_args__ = ("hidden",)

    def __init__(self):
        self.hidden, self.inner = 2.0, types.SimpleNamespace(scale=2.0)

    def doubled(self):
        return self.hidden * 2

    through = property(operator.attrgetter("inner.scale"))


def matched_by_name(x, own):
    match own:
        case Own(hidden=gain):
            return x * gain


def matched_by_place(x, own):
    match own:
        case Own(gain):
            return x * gain


call_doubled = operator.methodcaller("doubled")
NAMED = {
    "getattr": lambda x, own: x * find(own, NAMES[1]), "vars": lambda x, own: x * all_of(own)["".join(["hid", "den"])], "partial": lambda x, own: x * functools.partial(getattr, own)(NAMES[1]),
    "default": lambda x, own, ask=getattr: x * ask(own, NAMES[1]), "__getattribute__": lambda x, own: x * own.__getattribute__(NAMES[1]), "static": lambda x, own: x * inspect.getattr_static(own, NAMES[1]),
    "getter with dots": lambda x, own: x * operator.attrgetter("inner.scale")(own), "property of a getter": lambda x, own: x * own.through, "caller": lambda x, own: x * operator.methodcaller("doubled")(own),
    "caller elsewhere": lambda x, own: x * call_doubled(own), "pickle": lambda x, own: x * pickle.loads(pickle.dumps(own.__dict__))["hid" + "den"], "matched by name": matched_by_name, "matched by place": matched_by_place,
}


@pytest.mark.parametrize("row", NAMED)
@torch.no_grad()
def test_attributes_by_other_ways(row):
    own, read = Own(), NAMED[row]

    def change(value):
        own.hidden = own.inner.scale = value

    def program(x):
        return read(x, own)

    compare(escapement.jit(program), program, change)


def evaluated(x):
    """Scale it."""
    return x * eval(EXPRESSION)


def by_globals(x):
    """Scale it."""
    return x * globals()[NAMES[0]]


MODULES = {
    "eval": evaluated, "globals": by_globals, "eval of a sum": lambda x: x * eval("GAIN" + " * 2".strip("z")), "globals of a sum": lambda x: x * globals()["GA" + NAMES[0][2:]],
    "globals formatted": lambda x: x * globals()[f"GA{NAMES[0][2:]}"], "get of a name": lambda x: x * globals().get(NAMES[0], 1.0), "get": lambda x: x * globals().get("GAIN", 1.0), "in": lambda x: x * (eval("GAIN") if "GAIN" in globals() else 1.0),
    "of a function": lambda x: x * scaled.__globals__[NAMES[0]], "sys.modules": lambda x: x * sys.modules[__name__].GAIN, "import_module": lambda x: x * importlib.import_module(__name__).GAIN,
    "__import__": lambda x: x * __import__(__name__).GAIN,
}


@pytest.mark.parametrize("row", MODULES)
@torch.no_grad()
def test_globals_by_other_ways(row):
    compare(escapement.jit(MODULES[row]), MODULES[row], set_gain)


METHODS = {
    "get": (lambda: {"k": 2.0}, lambda c: c.get, lambda f: f("k"), lambda c, value: c.update(k=value)), "item": (lambda: [2.0], lambda c: c.__getitem__, lambda f: f(0), lambda c, value: c.__setitem__(0, value)),
    "in": (lambda: {9.0}, lambda c: c.__contains__, lambda f: 2.0 if f(5.0) else 3.0, lambda c, value: (c.clear(), c.add(value))), "partial": (lambda: {"k": 2.0}, lambda c: functools.partial(c.get, "k"), lambda f: f(), lambda c, value: c.update(k=value)),
    "array": (lambda: np.ones(3), lambda c: c.item, lambda f: f(0), lambda c, value: c.fill(value)), "counter": (lambda: collections.Counter(k=2), lambda c: c.most_common, lambda f: float(f()[0][1]), lambda c, value: c.update(k=int(value))),
}


@pytest.mark.parametrize("row", METHODS)
@torch.no_grad()
def test_methods_of_c(row):
    make, bind, read, change = METHODS[row]
    container = make()
    bound = bind(container)

    def program(x):
        return x * read(bound)

    compare(escapement.jit(program), program, lambda value: change(container, value))


@torch.no_grad()
def test_effects_of_methods_of_c():
    log, seen = [], collections.Counter()
    push, note = log.append, seen.update

    def program(x):
        push(1)
        note("a")
        return x * 2

    function = escapement.jit(program)
    for _ in range(8):
        function(torch.ones(2))
    assert len(log) == 8 and seen["a"] == 8


# --- defaults, methods of functools, tensors, classes, loggers, builtins

@pytest.mark.parametrize("default", [[2.0] * 20000, np.full(100_000, 2.0)], ids=["list", "array"])
@torch.no_grad()
def test_large_defaults(default):
    def program(x, table=default, *, more=default):
        return x * float(table[7]) + float(more[7])

    function = escapement.jit(program)
    compare(function, program, lambda value: default.__setitem__(7, value))
    assert set(function.info()["eager"]) == {"state_not_compared"}


@torch.no_grad()
def test_nested_defaults():
    def program(x, config={"a": [{"b": (1.0, [2.0])}]}):
        return x * config["a"][0]["b"][1][0]

    function = escapement.jit(program)
    compare(function, program, lambda value: program.__defaults__[0]["a"][0]["b"][1].__setitem__(0, value))
    assert not function.info()["eager"]


class Dispatching:
    gain = 2.0
    of_list = functools.partialmethod(lambda self, held, x: x * held[0], [2.0])

    @functools.singledispatchmethod
    def of_kind(self, kind, x):
        return x

    @of_kind.register
    def _(self, kind: str, x):
        return x * self.gain


def test_methods_of_functools():
    own = Dispatching()

    def program(x):
        return own.of_list(x) + own.of_kind("s", x)

    def change(value):
        own.gain = value
        vars(Dispatching)["of_list"].args[0][0] = value

    compare(escapement.jit(program), program, change)


@pytest.mark.parametrize("asking", [lambda w: getattr(w, "gain", 1.0), lambda w: w.gain if hasattr(w, "gain") else 1.0, lambda w: vars(w).get("gain", 1.0)])
@torch.no_grad()
def test_attributes_that_come_onto_tensors(asking):
    weight, layer = torch.ones(()), torch.nn.Linear(1, 1)

    def program(x):
        return x * asking(weight) + asking(layer.weight)

    def change(value):
        if value == 9.0:
            weight.gain = layer.weight.gain = value
        else:
            vars(weight).clear()
            vars(layer.weight).clear()

    compare(escapement.jit(program), program, change)


@torch.no_grad()
def test_thread_locals_that_get_attributes():
    local = threading.local()

    def program(x):
        return x * getattr(local, "gain", 2.0)

    compare(escapement.jit(program), program, lambda value: setattr(local, "gain", value) if value == 9.0 else vars(local).clear())


@torch.no_grad()
def test_classes_that_are_registered_or_made():
    class Base(abc.ABC):
        pass

    class Plain:
        pass

    plain, made = Plain(), []

    def program(x):
        return x * (2.0 if isinstance(plain, Base) else 3.0) + len(Base.__subclasses__())

    def is_base(x):
        return x * (2.0 if isinstance(plain, Base) else 3.0)

    function, other = escapement.jit(is_base), escapement.jit(program)
    for change in (lambda: None, lambda: Base.register(Plain), lambda: made.append(type("Late", (Base,), {}))):
        change()
        for size in (3, 1, 0, 7):
            x = torch.rand(size)
            assert torch.equal(function(x), is_base(x)) and torch.equal(other(x), program(x))


@torch.no_grad()
def test_a_logger_that_is_fetched():
    def program(x):
        return x * (2.0 if logging.getLogger("escapement.tests.fetched").isEnabledFor(logging.DEBUG) else 3.0)

    compare(escapement.jit(program), program, lambda value: logging.getLogger("escapement.tests.fetched").setLevel(logging.DEBUG if value == 5.0 else logging.ERROR))


@torch.no_grad()
def test_a_builtin_of_the_programs(monkeypatch):
    import builtins

    monkeypatch.setattr(builtins, "program_gain", 2.0, raising=False)

    def program(x):
        return x * program_gain   # noqa: F821

    compare(escapement.jit(program), program, lambda value: setattr(builtins, "program_gain", value))


class Odd(types.ModuleType):
    @property
    def gain(self):
        return self.__dict__["held"]


@torch.no_grad()
def test_modules_that_compute_their_names():
    computed, own = types.ModuleType("computed"), Odd("odd")
    exec("def __getattr__(name): return GAIN * 3", vars(computed))

    def program(x):
        return x * computed.other + own.gain

    def change(value):
        computed.GAIN = own.held = value

    compare(escapement.jit(program), program, change)


# --- what answers everything, or nothing

class Raising:
    def __getattribute__(self, name):
        raise KeyError(name)


class NoWalk(list):
    def __iter__(self):
        raise RuntimeError("nobody walks through it")


class NoModule:
    __module__, gain = None, 2.0


def answering():
    found = types.ModuleType("answering")
    found.__getattr__, found.gain = lambda name: Own(), 2.0
    return found


@pytest.mark.parametrize("make, read", [(Raising, lambda own: 2.0 if own else 3.0), (lambda: NoWalk([1.0]), len), (NoModule, lambda own: own.gain), (answering, lambda own: own.gain)])
@torch.no_grad()
def test_objects_that_do_not_like_to_be_asked(make, read):
    own = make()

    def program(x):
        return x * read(own)

    compare(escapement.jit(program), program, lambda value: None)


SCALE = [2.0]


class Scaled:
    def __init__(self, x):
        self.y = x * SCALE[0]


@torch.no_grad()
def test_what_is_read_as_objects_are_made_the_first_search_finds():
    """Else the code is met as it runs: as right, but each such function is recorded twice."""
    function = escapement.jit(lambda x: Scaled(x).y + 1)
    for size in (3, 1, 4, 5):
        assert torch.equal(function(torch.ones(size)), torch.full((size,), 3.0))
    (region,) = function.info()["regions"]
    assert region["recordings"] == 1 and [version["hits"] for version in region["versions"]] == [3]
