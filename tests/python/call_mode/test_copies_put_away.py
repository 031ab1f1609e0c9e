"""Objects and containers among the arguments that the function puts somewhere, wherever that is: what lies there is the caller's own."""

import collections
import functools
import gc
import heapq
import queue
import types
import weakref

import pytest
import torch

import escapement


class Request:
    pass


class Slotted:
    __slots__ = ("held",)


class Rejected(Exception):
    pass


class Scheduler:
    def __init__(self):
        self.running = ()

    def admit(self, r):
        self.running += (r,)


def cell():
    held = None

    def put(r):
        nonlocal held
        held = r

    return put, lambda: held


def places():
    """name -> (what puts something there, what is found there)"""
    waiting, members, table, ordered, counter, heap = collections.deque(), set(), {}, collections.OrderedDict(), collections.Counter(), []
    line, slotted, scheduler, list_, named, errors = queue.Queue(), Slotted(), Scheduler(), [], {}, []
    weak, by_name, by_key, refs = weakref.WeakSet(), weakref.WeakValueDictionary(), weakref.WeakKeyDictionary(), []
    put, held = cell()
    return {
        "deque": (waiting.append, lambda: waiting[-1]),
        "set": (members.add, lambda: next(iter(members))),
        "key": (lambda r: table.__setitem__(r, 1), lambda: next(iter(table))),
        "key in order": (lambda r: ordered.update({r: 1}), lambda: next(iter(ordered))),
        "counted": (lambda r: counter.update([r]), lambda: next(iter(counter))),
        "heap": (lambda r: heapq.heappush(heap, (len(heap), r)), lambda: heap[0][1]),
        "queue": (line.put, lambda: line.queue[0]),
        "slot": (lambda r: setattr(slotted, "held", r), lambda: slotted.held),
        "tuple in an attribute": (scheduler.admit, lambda: scheduler.running[0]),
        "cell": (put, held),
        "list": (list_.append, lambda: list_[0]),
        "list in a list": (lambda r: list_.append([r]), lambda: list_[0][0]),
        "dict": (lambda r: named.update(r=r), lambda: named["r"]),
        "partial": (lambda r: list_.append(functools.partial(print, r)), lambda: list_[0].args[0]),
        "partial by name": (lambda r: list_.append(functools.partial(print, r=r)), lambda: list_[0].keywords["r"]),
        "closure": (lambda r: list_.append(lambda: r), lambda: list_[0]()),
        "default": (lambda r: list_.append(lambda r=r: r), lambda: list_[0]()),
        "exception": (lambda r: errors.append(Rejected(r)), lambda: errors[0].args[0]),
        "bound method": (lambda r: list_.append(types.MethodType(print, r)), lambda: list_[0].__self__),
        "weak set": (weak.add, lambda: next(iter(weak))),
        "weak value": (lambda r: by_name.__setitem__("r", r), lambda: by_name["r"]),
        "weak key": (lambda r: by_key.__setitem__(r, 1), lambda: next(iter(by_key))),
        "weak reference": (lambda r: refs.append(weakref.ref(r)), lambda: refs[0]()),
        "weak method": (lambda r: refs.append(weakref.WeakMethod(types.MethodType(print, r))), lambda: refs[0]().__self__),
    }


@pytest.mark.parametrize("name", places())
def test_put_somewhere(name):
    put, found = places()[name]
    jitted = escapement.jit(lambda r: (put(r), r.x + 1)[1])
    request = Request()
    request.x = torch.ones(1)
    assert jitted(request).tolist() == [2.0]
    gc.collect()
    assert found() is request
    request.x = torch.ones(1) * 2
    assert jitted(request).tolist() == [3.0]
    assert found() is request


@pytest.mark.parametrize("make", [lambda: [], lambda: {}], ids=["list", "dict"])
def test_containers_too(make):
    kept = collections.deque()
    jitted = escapement.jit(lambda x, c: (kept.append(c), x + len(c))[1])
    for _ in range(3):
        given = make()
        assert jitted(torch.zeros(1), given).item() == 0 and kept[-1] is given


RESULTS = {
    "set": (lambda r: {r}, lambda found: next(iter(found))),
    "key": (lambda r: {r: r.x + 1}, lambda found: next(iter(found))),
    "partial": (lambda r: functools.partial(print, r), lambda found: found.args[0]),
    "bound method": (lambda r: types.MethodType(print, r), lambda found: found.__self__),
    "in a deque": (lambda r: collections.deque([r]), lambda found: found[0]),
}


@pytest.mark.parametrize("name", RESULTS)
def test_in_results(name):
    function, held = RESULTS[name]
    jitted = escapement.jit(function)
    for _ in range(3):
        request = Request()
        request.x = torch.ones(1)
        assert held(jitted(request)) is request


def test_in_what_is_raised():
    def reject(r):
        r.rejected = r.x + 1
        raise Rejected(r)

    jitted = escapement.jit(reject)
    for _ in range(3):
        request = Request()
        request.x = torch.ones(1)
        with pytest.raises(Rejected) as raised:
            jitted(request)
        assert raised.value.args[0] is request and request.rejected.tolist() == [2.0]


def test_what_is_put_nowhere_is_compiled():
    waiting = collections.deque()
    jitted = escapement.jit(lambda r: r.x * (r.n + len(waiting)))
    for n in range(2, 8):
        request = Request()
        request.x, request.n = torch.ones(n), n
        assert torch.equal(jitted(request), torch.ones(n) * n)
    info = jitted.info()
    assert info["recordings"] == 1 and info["eager"] == {} and info["regions"][0]["versions"][0]["hits"] == 5


def test_a_scheduler():
    """Requests come and go; each step is the same computation over those that run."""
    class Engine:
        def __init__(self):
            self.waiting, self.running = collections.deque(), []

        def step(self, r):
            self.waiting.append(r)
            while self.waiting:
                self.running.append(self.waiting.popleft())
            return sum(one.x.sum() for one in self.running)

    engine, total = Engine(), 0.0
    step = escapement.jit(engine.step)
    for n in range(1, 6):
        request = Request()
        request.x = torch.ones(n)
        total += n
        assert step(request).item() == total
        request.done = True
        assert engine.running[-1] is request and all(one.done for one in engine.running)
