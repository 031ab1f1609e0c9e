"""What a function reads from elsewhere and a program changes between calls: each row's function against itself run eagerly, after each change and back,
in call mode. None of them runs eagerly for long; what comes back finds its version again."""
import array
import cmath
import collections
import ctypes
import functools
import logging
import math
import tempfile
import runpy
import pathlib
import importlib.util
import operator
import os
import signal
import sys
import threading
import types
import weakref

import numpy as np
import pytest
import torch

import escapement


class Holder:
    k = 2.0

    def __init__(self, **attributes):
        vars(self).update(attributes)


def two():
    return torch.ones(2) * 2


def three():
    return torch.ones(2) * 3


def reordered_dict():
    d = {"a": two(), "b": three()}
    return lambda x: functools.reduce(lambda y, v: y * v + 1, d.values(), x), [lambda: d.update(a=d.pop("a")), lambda: d.update(b=d.pop("b"))]


def reordered_modules():
    d = {"a": torch.nn.ReLU(), "b": torch.nn.Tanh()}
    return lambda x: functools.reduce(lambda y, m: m(y) - 5, d.values(), x), [lambda: d.update(a=d.pop("a")), lambda: d.update(b=d.pop("b"))]


def ordered_dict():
    d = collections.OrderedDict(a=two(), b=three())
    return lambda x: functools.reduce(lambda y, v: y * v + 1, d.values(), x), [lambda: d.move_to_end("a"), lambda: d.move_to_end("b")]


def reordered_attributes():
    n = Holder(a=two(), b=three())

    def last(name):
        value = getattr(n, name)
        delattr(n, name)
        setattr(n, name, value)

    return lambda x: functools.reduce(lambda y, v: y * v + 1, vars(n).values(), x), [lambda: last("a"), lambda: last("b")]


def reordered_numbers():
    n = Holder(a=2.0, b=3.0)

    def last(name):
        value = getattr(n, name)
        delattr(n, name)
        setattr(n, name, value)

    return lambda x: functools.reduce(lambda y, v: y * v + 1, vars(n).values(), x), [lambda: last("a"), lambda: last("b")]


def rotated_deque():
    q = collections.deque([two(), three()])
    return lambda x: x * q[0], [q.rotate, q.rotate, lambda: q.append(two()), q.popleft]


def set_of_tensors():
    s = {two()}
    return lambda x: x * next(iter(s)), [lambda: (s.clear(), s.add(three())), lambda: (s.clear(), s.add(two()))]


def set_of_modules():
    s = {torch.nn.ReLU()}
    return lambda x: functools.reduce(lambda y, m: m(y - 1), s, x), [lambda: (s.clear(), s.add(torch.nn.Tanh())), s.clear]


def replaced_generator():
    state = {"g": torch.Generator().manual_seed(3)}

    def function(x):
        return x * torch.rand(2, generator=state["g"])

    def seeded(seed):
        return lambda: state.update(g=torch.Generator().manual_seed(seed))

    return function, [seeded(4), seeded(5), lambda: state.update(g=None)], [lambda: state["g"] and state["g"].manual_seed(9), lambda: torch.manual_seed(9)]


def deleted_function_attribute():
    def function(x):
        return x * function.k

    function.k = two()
    return function, [lambda: setattr(function, "k", three()), lambda: delattr(function, "k"), lambda: setattr(function, "k", two())]


class Descriptor:
    v = 2.0

    def __get__(self, instance, owner):
        return self.v + getattr(instance, "bias", 0) + STORE["bias"]


STORE = {"bias": 0.0}


class Described:
    k = Descriptor()


def descriptor():
    q = Described()
    own = vars(Described)["k"]
    return lambda x: x * q.k, [lambda: setattr(own, "v", 5.0), lambda: setattr(q, "bias", 3.0), lambda: STORE.update(bias=1.0), lambda: STORE.update(bias=0.0), lambda: delattr(own, "v")]


class Meta(type):
    k = 2.0


class OfMeta(metaclass=Meta):
    pass


def metaclass():
    return lambda x: x * OfMeta.k, [lambda: setattr(Meta, "k", 3.0), lambda: setattr(Meta, "k", 2.0)]


def module_without_file():
    m = types.ModuleType("made")
    m.k, m.g = 2.0, lambda y: y + 1
    return lambda x: m.g(x) * m.k, [lambda: setattr(m, "k", 3.0), lambda: setattr(m, "g", lambda y: y - 1)]


def imported_inside():
    m = types.ModuleType("escapement_test_imported")
    m.k, m.g = 2.0, lambda y: y + 1
    sys.modules[m.__name__] = m

    def function(x):
        import escapement_test_imported
        return escapement_test_imported.g(x) * escapement_test_imported.k

    return function, [lambda: setattr(m, "k", 3.0), lambda: setattr(m, "g", lambda y: y - 1)]


def imported_from():
    m = types.ModuleType("escapement_test_from")
    m.k = 2.0
    sys.modules[m.__name__] = m

    def function(x):
        from escapement_test_from import k
        return x * k

    return function, [lambda: setattr(m, "k", 3.0), lambda: setattr(m, "k", two())]


def tensor_attribute():
    t = two()
    t.scale, t.other = 2.0, three()
    return lambda x: x * t * t.scale + t.other, [lambda: setattr(t, "scale", 3.0), lambda: setattr(t, "other", two()), lambda: setattr(t, "scale", 2.0)]


def parameter_attribute():
    m = torch.nn.Linear(2, 2).requires_grad_(False)
    m.weight.scale = 2.0
    return lambda x: m(x) * m.weight.scale, [lambda: setattr(m.weight, "scale", 3.0), lambda: setattr(m.weight, "scale", 2.0)]


def weak_reference():
    q = Holder(k=2.0, t=two())
    r = weakref.ref(q)
    return lambda x: x * r().k * r().t, [lambda: setattr(q, "k", 3.0), lambda: setattr(q, "t", three())]


def weak_keys():
    q = Holder()
    d = weakref.WeakKeyDictionary()
    d[q] = 1.0
    return lambda x: x * d[q], [lambda: d.__setitem__(q, 5.0), lambda: d.__setitem__(q, 1.0)]


def weak_values():
    q, other = Holder(k=2.0), Holder(k=7.0)
    d = weakref.WeakValueDictionary(a=q)
    return lambda x: x * d["a"].k, [lambda: setattr(q, "k", 3.0), lambda: d.__setitem__("a", other)]


def dispatched():
    @functools.singledispatch
    def chosen(value, y):
        return y

    return lambda x: chosen(3, x), [lambda: chosen.register(int, lambda v, y: y * v), lambda: chosen.register(int, lambda v, y: y - v)]


def getter():
    q, read = types.SimpleNamespace(k=2.0, deep=types.SimpleNamespace(v=3.0)), operator.attrgetter("k", "deep.v")
    return lambda x: x * read(q)[0] + read(q)[1], [lambda: setattr(q, "k", 3.0), lambda: setattr(q.deep, "v", 5.0)]


def array_of_numbers():
    a = array.array("f", [1, 2])
    return lambda x: x * a[0], [lambda: a.__setitem__(0, 7.0), lambda: a.append(3.0), lambda: a.__setitem__(0, 1.0)]


def number_of_c():
    c = ctypes.c_float(2.0)
    return lambda x: x * c.value, [lambda: setattr(c, "value", 7.0), lambda: setattr(c, "value", 2.0)]


def structure_of_c():
    class Pair(ctypes.Structure):
        _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_double)]

    c = Pair(1, 2.0)
    return lambda x: x * c.a + c.b, [lambda: setattr(c, "a", 7), lambda: setattr(c, "b", 1.0)]


def array_of_objects():
    o = np.array([1.0, None], dtype=object)
    return lambda x: x * o[0], [lambda: o.__setitem__(0, 7.0), lambda: o.__setitem__(0, 1.0)]


def deep_number():
    held = [[[[2.0]]]]
    return lambda x: x * held[0][0][0][0], [lambda: held[0][0][0].__setitem__(0, 5.0), lambda: held[0][0][0].__setitem__(0, 2.0)]


def deep_tensor():
    s = types.SimpleNamespace(v={"a": [1, {"z": [two()]}]})
    return lambda x: x * s.v["a"][1]["z"][0], [lambda: s.v["a"][1]["z"].__setitem__(0, three())]


def level_of_a_logger():
    logger = logging.getLogger("escapement.test.levels")
    return (lambda x: x * (2 if logger.isEnabledFor(logging.DEBUG) else 3),
            [lambda: logger.setLevel(logging.DEBUG), lambda: logger.setLevel(logging.ERROR), lambda: logger.setLevel(logging.NOTSET),
             lambda: logging.getLogger("escapement.test").setLevel(logging.DEBUG), lambda: logging.getLogger("escapement.test").setLevel(logging.NOTSET)])


def arguments_of_the_process():
    return lambda x: x * len(sys.argv), [lambda: sys.argv.append("more"), sys.argv.pop]


def gradient_of_a_tensor():
    p = torch.nn.Parameter(two())
    p.grad = two()

    def function(x):
        return x * p.grad if p.grad is not None else x

    return function, [lambda: setattr(p, "grad", three()), lambda: setattr(p, "grad", None), lambda: setattr(p, "grad", two())]


def view_of_keys():
    held = {"a": 1.0}
    view = held.keys()
    return lambda x: x * len(view) + (1 if "c" in view else 2), [lambda: held.update(c=5.0), lambda: held.pop("c", None)]


def view_of_values():
    held = {"a": 1.0}
    view = held.values()
    return lambda x: x * sum(view), [lambda: held.update(a=5.0), lambda: held.update(b=2.0), held.clear]


def view_of_items():
    held = collections.OrderedDict(a=1.0, b=2.0)
    views = [held.items()]
    return lambda x: x * next(iter(views[0]))[1], [lambda: held.move_to_end("a"), lambda: held.move_to_end("b")]


def view_of_tensors():
    held = {"a": two()}
    view = held.values()
    return lambda x: x * sum(view), [lambda: held.update(a=three()), lambda: held.update(b=two())]


def default_factory():
    held = collections.defaultdict(list)
    return lambda x: x * (2 if held.default_factory is list else 3), [lambda: setattr(held, "default_factory", dict), lambda: setattr(held, "default_factory", list)]


def factory_that_reads():
    scale = [2.0]
    held = collections.defaultdict(lambda: scale[0])
    return lambda x: x * held["a"], [lambda: (held.clear(), scale.__setitem__(0, 5.0)), lambda: (held.clear(), scale.__setitem__(0, 2.0)), held.clear]


SOURCE = """
class Scale:
    factor = 2.0

class Shift:
    def __init__(self):
        self.v = 1.0

scale, shift = Scale(), Shift()

def function(x):
    return x * scale.factor + shift.v
"""


def changes_of(names):
    return names["function"], [lambda: setattr(names["Scale"], "factor", 3.0), lambda: setattr(names["shift"], "v", 5.0), lambda: setattr(names["scale"], "factor", 7.0)]


def run_by_its_path():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "by_path.py"
        path.write_text(SOURCE)
        return changes_of(runpy.run_path(str(path)))


def run_from_a_text():
    names = {"__name__": "never_imported"}
    exec(SOURCE, names)
    return changes_of(names)


def loaded_by_hand():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "by_hand.py"
        path.write_text(SOURCE)
        spec = importlib.util.spec_from_file_location("by_hand", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return changes_of(vars(module))


class Doubling(dict):
    def __getitem__(self, key):
        return 2 * dict.__getitem__(self, key)


class Halving(list):
    def __getitem__(self, at):
        return list.__getitem__(self, at) / 2


def rebound(function, *values):
    """Functions of `s.v`, which is one value after the other."""
    s = types.SimpleNamespace(v=values[0])
    return lambda x: function(x, s.v), [lambda value=value: setattr(s, "v", value) for value in (*values[1:], values[0])]


def dict_of_another_class():
    return rebound(lambda x, held: x * held["a"], {"a": 1.0}, Doubling(a=1.0), collections.OrderedDict(a=1.0))


def list_of_another_class():
    return rebound(lambda x, held: x * held[0], [1.0, 2.0], Halving([1.0, 2.0]))


def ordered_dict_exchanged():
    first = collections.OrderedDict(a=1.0, b=2.0)
    first.move_to_end("a")
    return rebound(lambda x, held: x * 2 + next(iter(held.values())), first, collections.OrderedDict(a=1.0, b=2.0), first)


def factory_of_another():
    return rebound(lambda x, held: x * (2 if held.default_factory is list else 3), collections.defaultdict(list, a=1), collections.defaultdict(int, a=1))


def length_of_a_queue():
    return rebound(lambda x, held: x * (held.maxlen or 7), collections.deque([1.0], 2), collections.deque([1.0], 3), collections.deque([1.0]))


def equal_items_of_a_set():
    held = {1, 2}
    return (lambda x: x * sum(2 if type(item) is int else 3 for item in held),
            [lambda: (held.discard(1), held.add(True)), lambda: (held.discard(1), held.add(1.0)), lambda: (held.discard(2), held.add(2.0))])


def zeros_of_a_set():
    held = {0.0}
    return lambda x: x * math.copysign(1.0, *held), [lambda: (held.clear(), held.add(-0.0)), lambda: (held.clear(), held.add(0.0))]


def truths_of_a_set():
    held = {True, False}
    return lambda x: x * len(held), [lambda: held.discard(False), lambda: held.add(False)]


def library_exchanged():
    return rebound(lambda x, m: x * m.cosh(1.0).real, math, cmath, types.SimpleNamespace(cosh=lambda v: torch.tensor(7.0)))


def library_in_a_closure():
    m = math

    def bind(value):
        nonlocal m
        m = value

    return lambda x: x * m.sinh(1.0).real, [lambda: bind(cmath), lambda: bind(types.SimpleNamespace(sinh=lambda v: 7.0 + 0j)), lambda: bind(math)]


def made_module_exchanged():
    modules = [types.ModuleType("made"), types.ModuleType("made")]
    modules[0].s, modules[1].s = 2.0, 3.0
    return rebound(lambda x, m: x * m.s, *modules, types.SimpleNamespace(s=5.0))


ROWS = [reordered_dict, reordered_modules, ordered_dict, reordered_attributes, reordered_numbers, rotated_deque, set_of_tensors, set_of_modules,
        deleted_function_attribute, descriptor, metaclass, module_without_file, imported_inside, imported_from, tensor_attribute, parameter_attribute,
        weak_reference, weak_keys, weak_values, dispatched, getter, array_of_numbers, number_of_c, structure_of_c, array_of_objects, deep_number,
        deep_tensor, level_of_a_logger, arguments_of_the_process, gradient_of_a_tensor, replaced_generator, view_of_keys, view_of_values, view_of_items, view_of_tensors,
        default_factory, factory_that_reads, run_by_its_path, run_from_a_text, loaded_by_hand, dict_of_another_class,
        list_of_another_class, ordered_dict_exchanged, factory_of_another, length_of_a_queue, equal_items_of_a_set, zeros_of_a_set, truths_of_a_set,
        library_exchanged, library_in_a_closure, made_module_exchanged]


def outcome(function, x):
    try:
        return function(x)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.__name__)
@torch.no_grad()
def test_each_change_is_noticed(row):
    function, changes, *seeds = row()
    jitted = escapement.jit(function)
    for change in [None, *changes, *changes]:
        if change is not None:
            try:
                change()
            except AttributeError:   # there is nothing left to be deleted
                continue
        for rows in (3, 5):
            x = torch.arange(rows * 2.0).reshape(rows, 2)
            for seed in (seeds[0] if seeds else ()):
                seed()
            ours = outcome(jitted, x)
            for seed in (seeds[0] if seeds else ()):
                seed()
            eagers = outcome(function, x)
            assert torch.equal(ours, eagers) if isinstance(eagers, torch.Tensor) else ours == eagers, (change, ours, eagers)
    eager = jitted.info()["eager"]
    assert sum(eager.values()) <= 2, eager


# --- tensors that a function keeps from one call to the next

def in_a_default(x, held={}):
    if "w" not in held:
        held["w"] = torch.ones(2)
    held["w"].add_(1)
    return x * held["w"]


def in_a_default_by_name(x, *, held={"w": []}):
    if not held["w"]:
        held["w"].append(torch.ones(2))
    held["w"][0].add_(1)
    return x * held["w"][0]


def in_a_partial(x, held):
    return in_a_default(x, held)


@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
@pytest.mark.parametrize("make", [lambda: types.FunctionType(in_a_default.__code__, globals(), argdefs=({},)), lambda: with_keyword_defaults({"w": []}),
                                  lambda: functools.partial(in_a_partial, held={})], ids=["default", "keyword default", "partial"])
def test_a_tensor_that_a_function_keeps(make, grad):
    with torch.set_grad_enabled(grad):
        function, jitted = make(), escapement.jit(make())
        for call, rows in enumerate((3, 5, 1, 0, 7, 2, 3, 1)):
            x = torch.ones(rows, 2)
            assert torch.equal(jitted(x), function(x)), call
    info = jitted.info()
    assert sum(info["eager"].values()) <= 1 and info["recordings"] <= 2, info


def with_keyword_defaults(held):
    function = types.FunctionType(in_a_default_by_name.__code__, globals())
    function.__kwdefaults__ = {"held": held}
    return function


WRITES = {"in place": lambda w: w.add_(1) is w, "several": lambda w: torch._foreach_add_([w], 1.0) is None, "out": lambda w: torch.mul(w, 2.0, out=w) is w,
          "a part": lambda w: w[:1].fill_(7.0) is w}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("hide", [lambda w: lambda: w, lambda w: functools.partial(torch.Tensor.view_as, w, w)], ids=["closure", "partial"])
def test_a_tensor_that_nobody_finds_is_the_programs(hide, write):
    """Behind what a recorded function made: a later recording writes to it."""
    results = []
    for wrap in (lambda f: f, escapement.jit):
        kept = []

        def first(x):
            w = torch.ones(2)
            w.add_(1)
            kept.append(hide(w))
            return x * w

        def second(x):
            w = kept[0]()
            return x + torch.tensor(write(w)), x * w

        wrap(first)(torch.ones(3, 2))
        step = wrap(second)
        results.append([[value.tolist() for value in step(torch.ones(3, 2))] for _ in range(5)] + [kept[0]().tolist()])
    assert results[0] == results[1]


# --- steps that read gradients

@torch.no_grad()
def test_steps_with_the_gradients_of_each_call():
    parameter = torch.nn.Parameter(torch.zeros(4))

    def step():
        for each in [parameter]:
            each.sub_(each.grad)

    jitted = escapement.jit(step)
    for call in range(1, 6):
        parameter.zero_()
        parameter.grad = torch.full((4,), float(call))
        jitted()
        assert parameter.tolist() == [-call] * 4


@torch.no_grad()
def test_clipping_the_gradients_of_each_call():
    parameters = [torch.nn.Parameter(torch.zeros(4)), torch.nn.Parameter(torch.zeros(3))]
    jitted = escapement.jit(lambda: torch.nn.utils.clip_grad_norm_(parameters, 1.0))
    for call in range(1, 6):
        for parameter in parameters:
            parameter.grad = torch.full_like(parameter, float(call))
        wanted = torch.cat([parameter.grad for parameter in parameters]).norm()
        torch.testing.assert_close(jitted(), wanted)
        torch.testing.assert_close(torch.cat([parameter.grad for parameter in parameters]).norm(), torch.tensor(1.0), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_an_optimizer_inside():
    results = []
    for wrap in (lambda f: f, escapement.jit):
        parameter = torch.nn.Parameter(torch.zeros(4))
        optimizer = torch.optim.SGD([parameter], lr=0.1)
        step = wrap(lambda: optimizer.step())
        for call in range(1, 6):
            parameter.grad = torch.full((4,), float(call))
            step()
        results.append(parameter.tolist())
    assert results[0] == results[1]


@torch.no_grad()
def test_gradients_that_the_function_puts_there():
    parameter = torch.nn.Parameter(torch.zeros(2))

    def function(x):
        parameter.grad = x * 2
        return x + 1

    jitted = escapement.jit(function)
    for call in range(1, 6):
        x = torch.full((2,), float(call))
        assert torch.equal(jitted(x), x + 1) and torch.equal(parameter.grad, x * 2) and type(parameter.grad) is torch.Tensor


# --- what the process and the thread say of themselves

def in_a_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


@pytest.mark.parametrize("function", [
    lambda x: x * (1 if threading.current_thread() is threading.main_thread() else 5), lambda x: x * (threading.get_ident() == MAIN),
    lambda x: x * len(threading.current_thread().name)], ids=["current", "identity", "name"])
def test_each_thread_is_itself(function):
    jitted = escapement.jit(function)
    x = torch.ones(2)
    for _ in range(4):
        assert torch.equal(jitted(x), function(x))
        assert torch.equal(in_a_thread(lambda: jitted(x)), in_a_thread(lambda: function(x)))


MAIN = threading.get_ident()


@pytest.mark.parametrize("name, function, change, back", [
    ("seed", lambda x: x * (torch.initial_seed() % 7), lambda: torch.manual_seed(4), lambda: torch.manual_seed(5)),
    ("folder", lambda x: x * len(os.getcwd()), lambda: os.chdir("/"), lambda: os.chdir(HERE)),
    ("path", lambda x: x * len(os.path.abspath("a")), lambda: os.chdir("/"), lambda: os.chdir(HERE)),
    ("signal", lambda x: x * (signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL), lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN), lambda: signal.signal(signal.SIGUSR1, signal.SIG_DFL)),
    ("recursion", lambda x: x * sys.getrecursionlimit(), lambda: sys.setrecursionlimit(LIMIT + 7), lambda: sys.setrecursionlimit(LIMIT))], ids=lambda value: value if isinstance(value, str) else "")
def test_state_of_the_process(name, function, change, back):
    jitted = escapement.jit(function)
    x = torch.ones(2)
    try:
        for act in (lambda: None, change, back, change):
            act()
            for _ in range(3):
                assert torch.equal(jitted(x), function(x)), name
    finally:
        back()


HERE, LIMIT = os.getcwd(), sys.getrecursionlimit()
