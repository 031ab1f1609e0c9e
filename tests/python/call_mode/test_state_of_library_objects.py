"""Objects of Python's own library, and of classes derived from it, that a function reads from elsewhere: each row's function against itself run eagerly,
after each change and back. What can be looked at is served by compiled code as long as it is the same; of the rest the function runs anew."""
import asyncio
import bisect
import collections
import concurrent.futures
import configparser
import contextvars
import decimal
import enum
import fractions
import functools
import hashlib
import heapq
import io
import itertools
import mmap
import multiprocessing
import os
import queue
import random
import re
import select
import string
import sys
import threading
import types
import weakref

import numpy as np
import pytest
import torch

import escapement

K = 2.0
LATE = "ESCAPEMENT_LATE_GLOBAL"
SPACE = globals()


class Thing:
    def __init__(self, **attributes):
        vars(self).update(attributes)


# --- watched: (function, changes)

def sizes_of_queues():
    q, p, last = queue.Queue(3), queue.PriorityQueue(), queue.LifoQueue()
    p.put(3), last.put(1)
    return (lambda x: x * q.qsize() + q.empty() * 2 + q.full() * 5 + p.queue[0] * 10 + last.qsize() * 100,
            [lambda: q.put(1), lambda: p.put(1), lambda: last.put(1), lambda: (q.get(), p.get(), last.get())])


def simple_queue():
    q = queue.SimpleQueue()
    return lambda x: x * q.qsize() + q.empty(), [lambda: q.put(1), q.get]


def events():
    e, a = threading.Event(), asyncio.Event()
    return lambda x: x * (2 if e.is_set() else 1) + a.is_set(), [e.set, a.set, e.clear, a.clear]


def semaphore():
    s = threading.Semaphore(3)
    return lambda x: x * s._value, [s.acquire, s.release]


def locks():
    lock, s = threading.Lock(), asyncio.Lock()
    return lambda x: x * lock.locked() + s.locked() * 2, [lock.acquire, lock.release]


def recursive_lock():
    lock = threading.RLock()
    return lambda x: x * (2 if lock._is_owned() else 3), [lock.acquire, lock.release]


def barrier():
    b = threading.Barrier(2)
    return lambda x: x * b.broken + b.n_waiting, [b.abort, b.reset]


def future():
    state = {"f": concurrent.futures.Future()}
    return lambda x: x * state["f"].done(), [lambda: state["f"].set_result(3), lambda: state.update(f=concurrent.futures.Future())]


def asyncio_future():
    loop = asyncio.new_event_loop()
    f = loop.create_future()
    loop.close()
    return lambda x: x * f.done() + (f.result() if f.done() else 0), [lambda: f.set_result(3) if not f.done() else None]


def asyncio_queue():
    q = asyncio.Queue()
    return lambda x: x * q.qsize(), [lambda: q.put_nowait(1), q.get_nowait]


def order_of_numbers():
    d = collections.OrderedDict(a=1.0, b=2.0)
    return lambda x: x * next(iter(d.values())) + [*d.values()][-1] * 10, [lambda: d.move_to_end("a"), lambda: d.move_to_end("b"), lambda: d.move_to_end("b", last=False)]


def order_inside():
    h = Thing(held=[collections.OrderedDict(a=1.0, b=2.0)])
    return lambda x: x * [*h.held[0]].index("a"), [lambda: h.held[0].move_to_end("a"), lambda: h.held[0].move_to_end("b")]


def counted():
    c = collections.Counter("aab")
    return lambda x: x * c["a"] + c.total() * 10 + c.most_common(1)[0][1], [lambda: c.update("a"), lambda: c.subtract("aa"), lambda: c.update("bbb")]


def chained():
    m = collections.ChainMap({}, {"a": 1.0})
    return lambda x: x * m["a"] + len(m.maps), [lambda: m.__setitem__("a", 4.0), lambda: m.__delitem__("a"), lambda: m.maps.append({}), m.maps.pop]


def user_containers():
    d, u, s = collections.UserDict(a=1.0), collections.UserList([1.0]), Thing(s=collections.UserString("ab"))
    return (lambda x: x * d["a"] + u[0] * len(u) + len(s.s),
            [lambda: d.update(a=4.0), lambda: u.append(2.0), lambda: setattr(s, "s", collections.UserString("abc")), lambda: d.update(a=1.0), u.pop])


def default_dict():
    d = collections.defaultdict(float)
    return lambda x: x * d.get("a", 1), [lambda: d["a"], lambda: d.update(a=2.0), d.clear]


def proxy_of_a_dict():
    d = {"a": 1.0}
    p = types.MappingProxyType(d)
    return lambda x: x * p["a"], [lambda: d.update(a=8.0), lambda: d.update(a=1.0)]


def proxy_of_a_dict_with_a_tensor():
    d = {"a": torch.ones(2), "o": Thing(k=2.0)}
    p = types.MappingProxyType(d)
    return lambda x: x * p["a"] * p["o"].k, [lambda: d.update(a=torch.zeros(2)), lambda: setattr(d["o"], "k", 5.0), lambda: d.update(a=torch.ones(2))]


def weak_proxy():
    t = Thing(k=2.0)
    p = weakref.proxy(t)
    return lambda x: x * p.k, [lambda: setattr(t, "k", 3.0), lambda: setattr(t, "k", 2.0)]


def weak_set():
    t, s = Thing(), weakref.WeakSet()
    return lambda x: x * len(s) + (t in s), [lambda: s.add(t), lambda: s.discard(t)]


def memory():
    b = bytearray(b"\1\2")
    v = memoryview(b)
    return lambda x: x * v[0] + b[1], [lambda: b.__setitem__(0, 7), lambda: v.__setitem__(1, 9), lambda: b.__setitem__(0, 1)]


def mapped_memory():
    m = mmap.mmap(-1, 64)
    return lambda x: x * m[0], [lambda: m.__setitem__(0, 7), lambda: m.__setitem__(0, 0)]


def files_in_memory():
    s, b = io.StringIO("1"), io.BytesIO(b"12")

    def write(text):
        s.seek(0)
        s.write(text)

    return lambda x: x * float(s.getvalue()) + b.getvalue()[0] + s.tell() * 10, [lambda: write("5"), lambda: write("6"), lambda: b.getbuffer().__setitem__(0, 3), lambda: s.seek(0)]


def configuration():
    c = configparser.ConfigParser()
    c["a"] = {"v": "1"}
    return lambda x: x * c.getfloat("a", "v") + c.has_section("b"), [lambda: c.set("a", "v", "4"), lambda: c.add_section("b"), lambda: c.remove_section("b")]


def template():
    t = string.Template("abc")
    return lambda x: x * len(t.template), [lambda: setattr(t, "template", "abcdef")]


def context_variable():
    v = contextvars.ContextVar("v", default=1.0)
    return lambda x: x * v.get(), [lambda: v.set(3.0), lambda: v.set(1.0)]


def of_the_thread():
    v = threading.local()
    v.k = 1.0
    return lambda x: x * v.k, [lambda: setattr(v, "k", 3.0), lambda: setattr(v, "k", 1.0)]


def partial():
    p = functools.partial(lambda x, k: x * k, k=2.0)
    p.scale = 1.0
    return lambda x: p(x) * p.scale, [lambda: setattr(p, "scale", 3.0), lambda: p.keywords.update(k=3.0), lambda: setattr(p, "scale", 1.0), lambda: p.keywords.update(k=2.0)]


def cell():
    c = types.CellType(2.0)
    return lambda x: x * c.cell_contents, [lambda: setattr(c, "cell_contents", 3.0), lambda: setattr(c, "cell_contents", 2.0)]


def member_of_an_enum():
    class Kind(enum.Enum):
        A = 1.0

    return lambda x: x * Kind.A.value, [lambda: setattr(Kind.A, "_value_", 3.0), lambda: setattr(Kind.A, "_value_", 1.0)]


def match():
    h = Thing(m=re.match(r"(\d)", "1"))
    return lambda x: x * int(h.m[1]), [lambda: setattr(h, "m", re.match(r"(\d)", "4"))]


def decimals():
    h = Thing(d=decimal.Decimal(1), f=fractions.Fraction(1, 2), c=decimal.Context(prec=5))
    return (lambda x: x * float(h.d) + float(h.f) + h.c.prec,
            [lambda: setattr(h, "d", decimal.Decimal(3)), lambda: setattr(h.c, "prec", 7), lambda: setattr(h, "f", fractions.Fraction(1, 3)), lambda: setattr(h.c, "prec", 5)])


def precision():
    return (lambda x: x * float(decimal.Decimal(1) / 3) + decimal.getcontext().prec,
            [lambda: setattr(decimal.getcontext(), "prec", 4), lambda: setattr(decimal.getcontext(), "prec", 28)])


def heap():
    h = [3.0]
    return lambda x: x * h[0] + bisect.bisect(h, 2.0), [lambda: heapq.heappush(h, 1.0), lambda: heapq.heappop(h)]


def digest():
    h = hashlib.sha256()
    return lambda x: x * h.digest()[0], [lambda: h.update(b"a")]


def shape_of_an_array():
    a = np.ones((4, 4))
    return lambda x: x * a.shape[0] + a.dtype.itemsize, [lambda: a.resize((2, 8), refcheck=False), lambda: a.resize((4, 4), refcheck=False)]


def shape_of_a_large_array():
    a = np.ones((64, 64))
    return lambda x: x * a.shape[0], [lambda: a.resize((32, 128), refcheck=False), lambda: a.resize((64, 64), refcheck=False)]


def record_array():
    a = np.rec.array([(1.0, 2)], names="a,b")
    return lambda x: x * float(a.a[0]), [lambda: a.a.__setitem__(0, 4.0), lambda: a.a.__setitem__(0, 1.0)]


def masked_array():
    a = np.ma.masked_array([1.0, 2.0], mask=[False, False])
    return lambda x: x * float(a.sum()), [lambda: a.__setitem__(0, np.ma.masked), lambda: a.__setitem__(0, 5.0)]


def learning_rate():
    o = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=1.0)
    s = torch.optim.lr_scheduler.StepLR(o, 1, 0.5)
    o.step()
    return lambda x: x * s.get_last_lr()[0] + s.last_epoch, [s.step, s.step]


def scale_of_gradients():
    s = torch.amp.GradScaler("cpu", init_scale=4.0)
    s.scale(torch.ones(1))
    return lambda x: x * s.get_scale(), [lambda: s.update(8.0), lambda: s.update(4.0)]


def lists_in_a_named_tuple():
    n = collections.namedtuple("Both", "a b")([1.0], {"k": 2.0})
    return lambda x: x * n.a[0] + n.b["k"], [lambda: n.a.__setitem__(0, 4.0), lambda: n.b.update(k=5.0), lambda: n.a.__setitem__(0, 1.0)]


def sizes_of_long_containers():
    a, d, s, b = list(range(255)), dict.fromkeys(range(300)), set(range(300)), bytearray(5000)
    return lambda x: x * len(a) + len(d) * 2 + len(s) * 3 + len(b), [lambda: a.append(1), lambda: a.append(2), lambda: a.append(3), lambda: d.update(k=1), lambda: s.add("k"), lambda: b.append(1)]


def derived_queues():
    class Queue(collections.deque):
        pass

    class Set(set):
        pass

    q, s = Queue([1.0]), Set([1])
    return lambda x: x * q[0] + len(s) * 10, [lambda: q.appendleft(4.0), lambda: s.add(5), q.popleft, lambda: s.discard(5)]


def only_object_of_its_class():
    class Only:
        _only = None

        def __new__(cls):
            if cls._only is None:
                cls._only = super().__new__(cls)
                cls._only.k = 2.0
            return cls._only

    Only()
    return lambda x: x * Only().k, [lambda: setattr(Only(), "k", 3.0), lambda: setattr(Only(), "k", 2.0)]


def state_of_a_numpy_generator():
    g = np.random.default_rng(0)
    return lambda x: x * (g.bit_generator.state["state"]["state"] % 100), [g.random, g.random]


def finalizer():
    t = Thing()
    f = weakref.finalize(t, len, "")
    return lambda x: x * (2 if f.alive else 3) + (t is None), [f.detach]


def of_several_processes():
    e, v = multiprocessing.Event(), multiprocessing.Value("i", 1)
    return lambda x: x * (2 if e.is_set() else 3) + v.value, [e.set, lambda: setattr(v, "value", 4), e.clear]


# --- names that are read together, or stand in texts

def globals_by_name():
    return lambda x: x * globals()["K"], [lambda: SPACE.update(K=3.0), lambda: SPACE.update(K=2.0)]


def globals_that_come():
    return (lambda x: x * ("ESCAPEMENT_LATE_GLOBAL" in globals()) + globals().get("ESCAPEMENT_LATE_GLOBAL", 5.0),
            [lambda: SPACE.update({LATE: 3.0}), lambda: SPACE.pop(LATE, None)])


def globals_in_an_expression():
    return lambda x: x * eval("K + 1"), [lambda: SPACE.update(K=3.0), lambda: SPACE.update(K=2.0)]


def global_whose_name_is_made():
    part = "K"
    return lambda x: x * globals()[f"{part}"], [lambda: SPACE.update(K=3.0), lambda: SPACE.update(K=2.0)]


def globals_of_another_function():
    def other():
        return K

    return lambda x: x * other.__globals__["K"], [lambda: SPACE.update(K=3.0), lambda: SPACE.update(K=2.0)]


def attributes_of_a_module():
    m = types.ModuleType("made_here")
    m.k = 2.0
    return lambda x: x * sum(value for value in vars(m).values() if type(value) is float), [lambda: setattr(m, "k", 3.0), lambda: setattr(m, "late", 9.0), lambda: delattr(m, "late")]


def names_of_attributes():
    t = Thing()
    return lambda x: x * len([name for name in dir(t) if name[0] != "_"]), [lambda: setattr(t, "k", 3.0), lambda: setattr(t, "m", 3.0), lambda: delattr(t, "m")]


# --- the program's own classes

def containers_with_attributes():
    class List(list):
        pass

    class Dict(dict):
        pass

    class Text(str):
        pass

    class Number(float):
        pass

    class Pair(collections.namedtuple("Pair", "a b")):
        pass

    many = [List([1.0]), Dict(a=1.0), Text("a"), Number(1.0), Pair(1.0, 2.0)]
    for each in many:
        each.k = 1.0
    first, second, third, fourth, fifth = many
    return (lambda x: x * first.k + second.k * 2 + third.k * 3 + fourth.k * 4 + fifth.k * 5,
            [functools.partial(setattr, each, "k", 7.0) for each in many] + [functools.partial(setattr, each, "k", 1.0) for each in many])


def attributes_of_the_metaclass():
    class Meta(type):
        @property
        def k(cls):
            return cls._k

    class Of(metaclass=Meta):
        _k = 2.0

    return lambda x: x * Of.k, [lambda: setattr(Of, "_k", 3.0), lambda: setattr(Of, "_k", 2.0)]


def hidden_behind_a_property():
    hidden = {"k": 2.0}

    class Of:
        k = property(lambda self: hidden["k"])

    o = Of()
    return lambda x: x * o.k, [lambda: hidden.update(k=3.0), lambda: hidden.update(k=2.0)]


def slots():
    class Of:
        __slots__ = ("k", "__weakref__")

    o = Of()
    o.k = 2.0
    return lambda x: x * o.k, [lambda: setattr(o, "k", 3.0), lambda: setattr(o, "k", 2.0)]


def partial_method():
    class Of:
        k = 2.0

        def scaled(self, x, by):
            return x * by * self.k

        twice = functools.partialmethod(scaled, by=2)

    o = Of()
    return lambda x: o.twice(x), [lambda: setattr(o, "k", 3.0), lambda: setattr(Of, "k", 5.0), lambda: delattr(o, "k") if "k" in vars(o) else None]


WATCHED = [sizes_of_queues, simple_queue, events, semaphore, locks, recursive_lock, barrier, future, asyncio_future, asyncio_queue, order_of_numbers, order_inside, counted, chained,
           user_containers, default_dict, proxy_of_a_dict, proxy_of_a_dict_with_a_tensor, weak_proxy, weak_set, memory, mapped_memory, files_in_memory, configuration, template,
           context_variable, of_the_thread, partial, cell, member_of_an_enum, match, decimals, precision, heap, digest, shape_of_an_array, shape_of_a_large_array, record_array,
           masked_array, learning_rate, scale_of_gradients, lists_in_a_named_tuple, sizes_of_long_containers, derived_queues, only_object_of_its_class, state_of_a_numpy_generator, finalizer, of_several_processes, globals_by_name, globals_that_come, globals_in_an_expression, global_whose_name_is_made, globals_of_another_function,
           attributes_of_a_module, names_of_attributes, containers_with_attributes, attributes_of_the_metaclass, hidden_behind_a_property, slots, partial_method]


@pytest.mark.parametrize("row", WATCHED, ids=lambda row: row.__name__)
@torch.no_grad()
def test_each_change_is_noticed(row):
    function, changes = row()
    jitted = escapement.jit(function)
    x = torch.arange(6.0).reshape(3, 2)
    for change in [lambda: None, *changes, *changes]:
        change()
        assert torch.equal(jitted(x), function(x)), change
        recordings = jitted.info()["recordings"]
        for rows in (2, 3, 5, 1, 0):
            y = torch.arange(rows * 2.0).reshape(rows, 2)
            assert torch.equal(jitted(y), function(y))
        assert jitted.info()["recordings"] == recordings   # what has not changed is served
    assert not jitted.info()["eager"]


# --- not to be looked at: makes (function, the same function with a state of its own)

def count():
    it = itertools.count(1)
    return lambda x: x * next(it)


def generator():
    it = (n * n for n in range(1, 100))
    return lambda x: x * next(it)


def attribute_that_is_an_iterator():
    h = Thing(it=map(float, itertools.cycle([1, 2, 5])))
    return lambda x: x * next(h.it)


def iterator_in_a_list():
    held = [iter(range(1, 100))]
    return lambda x: x * next(held[0])


def method_of_an_iterator():
    step = itertools.count(1).__next__
    return lambda x: x * step()


def default_that_is_an_iterator():
    def function(x, it=iter(range(1, 100))):
        return x * next(it)

    function.__defaults__ = (iter(range(1, 100)),)
    return function


def pipe():
    reading, writing = os.pipe()
    os.write(writing, bytes(range(1, 100)))
    return lambda x: x * os.read(reading, 1)[0] * (1 if select.select([reading], [], [], 0)[0] else 2)


def file_that_is_open():
    reading, writing = os.pipe()
    os.write(writing, b"1\n3\n7\n2\n" * 10)
    os.close(writing)
    file = open(reading)
    return lambda x: x * float(file.readline())


def state_of_a_generator():
    r = random.Random(3)
    return lambda x: x * (r.getstate()[1][0] % 100) * r.random()


def iterator_of_a_loader():
    it = iter(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.arange(40.0)), batch_size=2))
    return lambda x: x * next(it)[0]


def values_of_a_generator_that_is_seen():
    random.seed(5)
    return lambda x: x * (random.getstate()[1][0] % 100)


RUN_ANEW = [count, method_of_an_iterator, generator, attribute_that_is_an_iterator, iterator_in_a_list, default_that_is_an_iterator, pipe, file_that_is_open, state_of_a_generator,
            iterator_of_a_loader, values_of_a_generator_that_is_seen]


@pytest.mark.parametrize("row", RUN_ANEW, ids=lambda row: row.__name__)
@torch.no_grad()
def test_what_nobody_can_compare_is_asked_at_every_call(row):
    ours, eagers = escapement.jit(row()), row()
    x = torch.arange(2.0)
    for _ in range(12):
        assert torch.equal(ours(x), eagers(x))
    eager = ours.info()["eager"]
    assert eager == {"state_changed": 9} or eager == {"state_not_compared": 12} and not ours.info()["recordings"]   # known before a recording is tried


# --- not read: costs nothing

@torch.no_grad()
def test_iterators_that_the_function_does_not_name():
    class Of:
        def __init__(self):
            self.k, self.numbers, self.lock, self.out = 2.0, itertools.count(), threading.Lock(), io.StringIO()

        def scaled(self, x):
            return x * self.k

    o = Of()
    jitted = escapement.jit(lambda x: o.scaled(x))
    for call in range(5):
        next(o.numbers)
        o.out.write("a")
        assert torch.equal(jitted(torch.ones(2)), torch.full((2,), 2.0))
    assert jitted.info()["recordings"] == 1 and not jitted.info()["eager"]


@torch.no_grad()
def test_a_lock_that_is_only_held_is_not_asked():
    lock = threading.Lock()

    def function(x):
        with lock:
            return x + 1

    jitted = escapement.jit(function)
    for _ in range(5):
        assert torch.equal(jitted(torch.ones(2)), torch.full((2,), 2.0))
    assert jitted.info()["recordings"] == 1 and not jitted.info()["eager"]


@torch.no_grad()
def test_what_is_printed_is_still_printed_while_recording():
    jitted = escapement.jit(lambda x: print("recorded", file=sys.stderr) or x + 1)
    for _ in range(5):
        assert torch.equal(jitted(torch.ones(2)), torch.full((2,), 2.0))
    assert jitted.info()["recordings"] == 1 and not jitted.info()["eager"]
