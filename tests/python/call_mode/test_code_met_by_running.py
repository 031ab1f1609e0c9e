"""Code that runs though no search meets it by names: in registries of libraries, behind decorators, in methods that Python or a library calls for itself. What it reads
is compared once it has run (tracer/ran.py)."""

import argparse
import collections
import contextlib
import copy
import copyreg
import dataclasses
import enum
import functools
import gc
import heapq
import importlib
import io
import json
import logging
import operator
import pickle
import re
import signal
import string
import sys
import textwrap
import time
import types
import unittest.mock
import weakref

import pytest
import torch
from torch.utils import _pytree

import escapement

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]
SETTINGS = {"scale": 2.0}


def scale(*_):
    return SETTINGS["scale"]


# --- methods behind decorators


class Decorated:
    @torch.no_grad()
    def no_grad(self, x):
        return x * SETTINGS["scale"]

    @torch.inference_mode()
    def inference(self, x):
        return x * SETTINGS["scale"]

    @torch.autocast("cpu", enabled=False)
    def autocast(self, x):
        return x * SETTINGS["scale"]

    @contextlib.contextmanager
    def context(self):
        yield SETTINGS["scale"]

    @functools.singledispatchmethod
    def dispatched(self, x):
        return x * SETTINGS["scale"]

    @staticmethod
    @torch.no_grad()
    def static(x):
        return x * SETTINGS["scale"]

    @classmethod
    @torch.no_grad()
    def of_class(cls, x):
        return x * SETTINGS["scale"]

    @property
    @torch.no_grad()
    def value(self):
        return SETTINGS["scale"]

    @torch.jit.unused
    def unused(self, x):
        return x * SETTINGS["scale"]


class DecoratedModel(torch.nn.Module):
    @torch.no_grad()
    def forward(self, x):
        return x * SETTINGS["scale"]


class Inherited(DecoratedModel):
    pass


DECORATED, MODEL = Decorated(), torch.nn.Sequential(Inherited())


def in_context(x):
    with DECORATED.context() as value:
        return x * value


# --- what a library calls


class Ordered:
    def __init__(self, number):
        self.number = number

    def __lt__(self, other):
        return (self.number < other.number) == (SETTINGS["scale"] > 3)


class Copied:
    value = 1.0

    def __copy__(self):
        made = Copied()
        made.value = SETTINGS["scale"]
        return made

    def __deepcopy__(self, memo):
        return self.__copy__()


class Formatted:
    def __format__(self, how):
        return str(SETTINGS["scale"])

    __str__ = __repr__ = lambda self: str(SETTINGS["scale"])


class Kind(enum.Enum):
    ONE = 1

    @classmethod
    def _missing_(cls, value):
        return cls.ONE if SETTINGS["scale"] > 3 else None


class Users(collections.UserDict):
    def __missing__(self, key):
        return SETTINGS["scale"]


class Counted(collections.UserList):
    def __len__(self):
        return int(SETTINGS["scale"])


@dataclasses.dataclass
class Made:
    number: float = dataclasses.field(default_factory=scale)
    twice: float = 0.0

    def __post_init__(self):
        self.twice = 2 * SETTINGS["scale"]


class Base:
    def __init_subclass__(cls, **given):
        cls.value = SETTINGS["scale"]

    def __class_getitem__(cls, item):
        return SETTINGS["scale"] * item


class Named:
    def __set_name__(self, owner, name):
        owner.value = SETTINGS["scale"]


class Reduced:
    def __reduce__(self):
        return scale, ()


class Kept:
    pass


class Asked(logging.Filter):
    def filter(self, record):
        record.value = SETTINGS["scale"]
        return True


class Template(string.Template):
    pass


class Mapping(dict):
    def __missing__(self, key):
        return SETTINGS["scale"]


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * SETTINGS["scale"]

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Pair:
    def __init__(self, a):
        self.a = a


class Registered:
    gain = 2.0

    def items(self, pair):
        return [pair.a * self.gain], None


class Pairs(Pair):
    pass


class Held(Pair):
    pass


BY_HOLDER = [None]
_pytree.register_pytree_node(Held, lambda pair: BY_HOLDER[0](pair), lambda items, _: Held(*items))
REGISTERED = [Registered()]   # which nobody names
_pytree.register_pytree_node(Pairs, REGISTERED[0].items, lambda items, _: Pairs(*items))
_pytree.register_pytree_node(Pair, lambda pair: ([pair.a * SETTINGS["scale"]], None), lambda items, _: Pair(*items))
copyreg.pickle(Kept, lambda kept: (scale, ()))
MOCK = unittest.mock.Mock(side_effect=scale)
REGISTRY = weakref.WeakValueDictionary(scale=scale)
ONLY = types.SimpleNamespace(call=types.MethodType(scale, 3))
DECODER = json.JSONDecoder(object_hook=scale)
PARSER = argparse.ArgumentParser()
PARSER.add_argument("--n", type=lambda text: float(text) * SETTINGS["scale"])
BY_NAME = {name: functools.partial(operator.call, getattr(sys.modules[__name__], name)) if hasattr(operator, "call") else scale for name in ("scale",)}
HOOKED = torch.nn.Linear(2, 2)
torch.nn.init.ones_(HOOKED.weight)
HOOKED.register_forward_hook(lambda module, given, out: out * SETTINGS["scale"])


def class_made():
    class Later(Base):
        pass
    return Later.value


def class_named():
    class Later:
        place = Named()
    return Later.value


def parsed():
    return PARSER.parse_args(["--n", "2"]).n


def with_stack(x):
    found = []
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: found.append(SETTINGS["scale"]))
    return x * found[0]


def logged(x):
    record = logging.LogRecord("a", 1, "b", 1, "c", (), None)
    Asked().filter(record)
    return x * record.value


def finalized(x):
    found = []
    kept = Kept()
    weakref.finalize(kept, lambda: found.append(SETTINGS["scale"]))
    del kept
    return x * found[0]


def of_kind(x):
    try:
        return x * Kind(3).value
    except ValueError:
        return x * 5


ROWS = {
    "no_grad": DECORATED.no_grad, "inference_mode": DECORATED.inference, "autocast": DECORATED.autocast, "contextmanager": in_context, "singledispatchmethod": DECORATED.dispatched,
    "staticmethod": DECORATED.static, "classmethod": DECORATED.of_class, "property": lambda x: x * DECORATED.value, "unused": DECORATED.unused, "model": MODEL,
    "heapq": lambda x: x * heapq.nsmallest(1, [Ordered(1.0), Ordered(2.0)])[0].number, "sorted": lambda x: x * sorted([Ordered(1.0), Ordered(2.0)])[0].number,
    "max": lambda x: x * max(Ordered(1.0), Ordered(2.0)).number, "cmp_to_key": lambda x: x * sorted([1.0, 2.0], key=functools.cmp_to_key(lambda a, b: (a - b) * (3 - SETTINGS["scale"])))[0],
    "copy": lambda x: x * copy.copy(Copied()).value, "deepcopy": lambda x: x * copy.deepcopy([Copied()])[0].value, "format": lambda x: x * float(f"{Formatted()}"), "str": lambda x: x * float(str(Formatted())),
    "join": lambda x: x * float("".join(map(str, [Formatted()]))), "percent": lambda x: x * float("%s" % Formatted()), "template": lambda x: x * float(Template("$a").substitute(a=Formatted())),
    "print": lambda x: x * printed(), "enum": of_kind, "userdict": lambda x: x * Users()["a"], "userlist": lambda x: x * len(Counted()), "missing": lambda x: x * Mapping()["a"],
    "format_map": lambda x: x * float("{a}".format_map(Mapping())), "dataclass": lambda x: x * Made().number * Made().twice, "init_subclass": lambda x: x * class_made(), "class_getitem": lambda x: x * Base[2.0],
    "set_name": lambda x: x * class_named(), "reduce": lambda x: x * pickle.loads(pickle.dumps(Reduced())), "copyreg": lambda x: x * copy.copy(Kept()), "mock": lambda x: x * MOCK(), "weak": lambda x: x * REGISTRY["scale"](),
    "namespace": lambda x: x * ONLY.call(), "json": lambda x: x * DECODER.decode("{}"), "json dumps": lambda x: x * float(json.dumps(Kept(), default=scale)), "argparse": lambda x: x * parsed(),
    "re": lambda x: x * float(re.sub("a", lambda found: str(SETTINGS["scale"]), "a")), "reduce function": lambda x: x * functools.reduce(lambda a, b: SETTINGS["scale"], [1, 2]), "map": lambda x: x * sum(map(scale, [1, 2])),
    "filter": lambda x: x * len(list(filter(lambda n: n < SETTINGS["scale"], range(9)))), "partial": lambda x: x * BY_NAME["scale"](), "stack": with_stack, "logging": logged, "finalize": finalized, "iter": lambda x: x * next(iter(scale, None)),
    "autograd function": lambda x: Scaled.apply(x), "pytree": lambda x: _pytree.tree_leaves(Pair(x))[0], "hook": HOOKED, "torch.vmap": lambda x: torch.vmap(lambda row: row * SETTINGS["scale"])(x),
    "checkpoint": lambda x: torch.utils.checkpoint.checkpoint(lambda t: t * SETTINGS["scale"], x, use_reentrant=False), "getattr": lambda x: x * getattr(sys.modules[__name__], "sca" + "le")(),
}


def printed():
    text = io.StringIO()
    print(Formatted(), file=text)
    return float(text.getvalue())


@pytest.fixture(autouse=True)
def as_it_was():
    yield
    SETTINGS["scale"] = 2.0


def compare(fn, jitted, arguments, change):
    with torch.no_grad():
        for value in (2.0, 5.0, 7.0, 2.0, 3.0):
            change(value)
            for size in (3, 1, 0, 7):
                x = torch.arange(2.0 * size).reshape(size, 2)
                torch.testing.assert_close(jitted(arguments(x)), fn(arguments(x)), msg=lambda text, value=value, size=size: f"{value}, {size} rows: {text}")


@pytest.mark.parametrize("row", ROWS)
def test_what_it_reads_is_compared(row):
    """Four states, each recorded once for all sizes; a row of 20 calls is served by them but for the first calls, of which one or two are recorded once more."""
    jitted = escapement.jit(ROWS[row])
    compare(ROWS[row], jitted, lambda x: x, functools.partial(SETTINGS.__setitem__, "scale"))
    info = jitted.info()
    if row in ("getattr", "mock"):   # a module by its name, a count of calls: these go on in replay mode
        assert set(info["eager"]) == {"state_not_compared" if row == "getattr" else "state_changed"}
        return
    versions = [version for region in info["regions"] for version in region["versions"]]
    assert not info["eager"] and info["recordings"] <= 4 and sum(version["hits"] for version in versions) >= 11, info
    assert sum(kernel["launches"] for version in versions for kernel in version["kernels"]) > 0, info


class Inner:
    gain = 2.0


class Called:
    def __init__(self):
        self.inner = Inner()

    def __call__(self, pair):
        return [pair.a * self.inner.gain], None


class Slots:
    __slots__ = ("gain",)

    def flat(self, pair):
        return [pair.a * self.gain], None


class Derived(Called):
    pass


def registered(flat):
    kind = type("Kind", (Pair,), {})
    _pytree.register_pytree_node(kind, flat, lambda items, _: kind(*items))
    return kind


def by_closure(held):
    return lambda pair: held(pair)


@pytest.mark.parametrize("how", ["method", "object", "derived", "slots", "default", "closure", "partial", "many"])
def test_state_of_what_only_a_library_holds(how):
    made = {"method": Registered, "slots": Slots, "derived": Derived}.get(how, Called)()
    owner = made.inner if isinstance(made, Called) else made
    owner.gain = 2.0
    flat = {"method": lambda: made.items, "slots": lambda: made.flat, "default": lambda: lambda pair, held=made: held(pair), "closure": lambda: by_closure(made), "partial": lambda: functools.partial(Called.__call__, made)}
    kind, others = registered(flat.get(how, lambda: made)()), [Called() for _ in range(100 if how == "many" else 0)]

    def fn(x):
        return _pytree.tree_leaves(kind(x))[0]

    jitted = escapement.jit(fn)
    compare(fn, jitted, lambda x: x, lambda value: setattr(owner, "gain", value))
    assert set(jitted.info()["eager"]) == ({"state_not_compared"} if others else set())


def test_code_that_the_collector_does_not_know():
    """A server freezes what it has loaded: then nobody knows whose code that is."""
    def change(value):
        REGISTERED[0].gain = value

    def fn(x):
        return _pytree.tree_leaves(Pairs(x))[0]

    gc.freeze()
    try:
        jitted = escapement.jit(fn)
        compare(fn, jitted, lambda x: x, change)
    finally:
        gc.unfreeze()
    assert set(jitted.info()["eager"]) <= {"state_not_compared"}


def test_equal_code_of_a_library():
    """Two classes with the same fields have equal methods; only one is a library's."""
    made = {"__name__": "torch.of_somebody", "__file__": torch.__file__}
    exec("def same(x):\n    return x * K", made)
    made["K"] = 3.0
    own = {"__name__": "own", "__file__": __file__}
    exec("def same(x):\n    return x * K", own)
    assert made["same"].__code__ == own["same"].__code__
    holder = Registered()
    for space, changes in ((made, False), (own, True)):
        holder.items = lambda pair, call=space["same"]: ([call(pair.a)], None)
        BY_HOLDER[0] = holder.items
        own["K"] = 2.0

        def fn(x):
            return _pytree.tree_leaves(Held(x))[0]

        compare(fn, escapement.jit(fn), lambda x: x, (lambda value: own.update(K=value)) if changes else lambda value: None)


# --- objects of an installed package among the arguments


@pytest.fixture
def package(tmp_path, monkeypatch):
    home = tmp_path / "site-packages" / "boxes_by_somebody"
    home.mkdir(parents=True)
    (home / "settings.py").write_text("SCALE = 2.0\n")
    (home / "__init__.py").write_text(textwrap.dedent("""
        import dataclasses, torch
        from . import settings

        @dataclasses.dataclass
        class Data:
            t: torch.Tensor

            def scaled(self):
                return self.t * settings.SCALE

        class Plain:
            gain = 3.0

            def __init__(self, t):
                self.t = t

            def scaled(self):
                return self.t * settings.SCALE * self.gain

            @torch.no_grad()
            def rare(self):
                return self.t - settings.SCALE
    """))
    monkeypatch.syspath_prepend(str(home.parent))
    import boxes_by_somebody
    yield boxes_by_somebody
    for name in [name for name in sys.modules if name.startswith(home.name)]:
        del sys.modules[name]


@pytest.mark.parametrize("change", [lambda package, value: setattr(package.settings, "SCALE", value), lambda package, value: setattr(package.Plain, "gain", value)], ids=["global", "class"])
@pytest.mark.parametrize("kind, method", [("Data", "scaled"), ("Plain", "scaled"), ("Plain", "rare")])
def test_methods_of_arguments(package, kind, method, change):
    make = getattr(package, kind)

    def fn(box):
        return getattr(box, method)() + 1

    compare(fn, escapement.jit(fn), make, functools.partial(change, package))


IMPORTED = """
import dataclasses
from {home} import BY_HOLDER, SETTINGS

@dataclasses.dataclass
class Options:
    gain: float = 1.0

GAIN = Options().gain * BY_HOLDER[0](None) * SETTINGS["scale"]
"""


@pytest.mark.parametrize("when", ["while recording", "before"])
def test_what_runs_as_a_file_is_imported(when, tmp_path, monkeypatch):
    """It runs once, whoever calls: no reason to record anew. What runs afterwards, too, is compared."""
    own = {"K": 3.0, "__name__": "own", "__file__": __file__}
    exec("def held(x):\n    return K", own)
    BY_HOLDER[0] = own["held"]
    (tmp_path / "late_options.py").write_text(IMPORTED.format(home=__name__))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "late_options", raising=False)
    kind = registered(lambda pair: ([pair.a * BY_HOLDER[0](None)], None))

    library = {"__name__": "torch.of_somebody", "__file__": torch.__file__}
    exec(compile("def load():\n    import late_options\n    return late_options.GAIN", torch.__file__, "exec"), library)
    load = library["load"]

    def once(x):
        return x * load()

    def again(x):
        return _pytree.tree_leaves(kind(once(x)))[0]

    def change(value):
        own["K"] = value

    for fn, recordings in ((once, 1), (again, 4)):
        own["K"] = 3.0
        sys.modules.pop("late_options", None)
        if when == "before":
            importlib.import_module("late_options")
        jitted = escapement.jit(fn)
        x = torch.ones(3, 2)
        with torch.no_grad():
            torch.testing.assert_close(jitted(x), jitted(x))
        hits = sum(version["hits"] for region in jitted.info()["regions"] for version in region["versions"])
        assert hits == (1 if fn is once else 0)
        compare(fn, jitted, lambda x: x, change)
        assert jitted.info()["recordings"] <= recordings and not jitted.info()["eager"]


class Timer:
    """As those of Dask and of profilers."""

    def __init__(self):
        self.calls, self.seconds, self.begun = 0, 0.0, 0.0

    def __call__(self, *_):
        self.note(time.perf_counter())

    def method(self, *_):
        self.note(time.perf_counter())

    def note(self, now):
        self.calls += 1
        self.seconds, self.begun = self.seconds + now - self.begun, now


@pytest.fixture
def often():
    threshold, handler = gc.get_threshold(), signal.getsignal(signal.SIGALRM)
    gc.set_threshold(10)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, handler)
    gc.set_threshold(*threshold)


@pytest.mark.parametrize("how", ["object", "method", "function", "partial", "signal"])
def test_what_runs_at_any_time_is_not_the_programs(how, often):
    """Collections and signals come when they like: what their handlers read changes between calls, and is no reason to record anew."""
    timer = Timer()
    called = {"object": timer, "function": lambda *given: timer(*given), "partial": functools.partial(Timer.method, timer)}.get(how, timer.method)
    if how == "signal":
        signal.signal(signal.SIGALRM, called)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    else:
        gc.callbacks.append(called)
    jitted = escapement.jit(lambda x: torch.softmax(x * SETTINGS["scale"], -1))
    try:
        with torch.no_grad():
            for size in (3, 1, 0, 7, 5):
                x = torch.arange(2.0 * size).reshape(size, 2)
                before = timer.calls
                torch.testing.assert_close(jitted(x), torch.softmax(x * 2, -1))
                assert size != 3 or timer.calls > before   # while it was recorded
    finally:
        if how != "signal":
            gc.callbacks.remove(called)
    (version,) = jitted.info()["regions"][0]["versions"]
    assert version["hits"] == 4 and not jitted.info()["eager"]


class Session:
    """Garbage in a cycle, as sockets and sessions are. There are many, all of which have state."""
    ended = 0

    def __init__(self):
        self.itself, self.name = self, "a"

    def __del__(self):
        Session.ended += len(self.name)


def test_finalizers_of_garbage_are_not_the_programs():
    enable, disable = functools.partial(gc.enable), functools.partial(gc.disable)   # whose calls nobody sees

    def fn(x):
        enable()   # a collection comes while this runs
        made = [[] for _ in range(2000)]
        disable()
        return torch.softmax(x * len(made), -1)

    kept, jitted = [Session() for _ in range(100)], escapement.jit(fn)
    gc.disable()
    try:
        with torch.no_grad():
            for size in (3, 1, 0, 7, 5):
                for _ in range(9):
                    Session()
                before, x = Session.ended, torch.arange(2.0 * size).reshape(size, 2)
                torch.testing.assert_close(jitted(x), torch.softmax(x * 2000, -1))
                assert size != 3 or Session.ended == before + 9   # while it was recorded
    finally:
        gc.enable()
    (version,) = jitted.info()["regions"][0]["versions"]
    assert kept and version["hits"] == 4 and not jitted.info()["eager"]


def test_finalizers_for_which_the_program_asks_are():
    def fn(x):
        Session()
        gc.collect()
        return x * Session.ended

    Session.ended = 0
    jitted = escapement.jit(fn)
    with torch.no_grad():
        for rows in (3, 1, 2):
            for _ in range(2):
                ours = jitted(torch.ones(rows))
                at = Session.ended
                torch.testing.assert_close(ours, torch.ones(rows) * at)
                torch.testing.assert_close(fn(torch.ones(rows)), torch.ones(rows) * (at + 1))
