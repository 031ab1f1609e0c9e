"""What functions of libraries tell of the process, its workers, threads, tasks and callers: each call hears what is true then."""

import asyncio
import inspect
import logging
import multiprocessing
import sys
import threading
import traceback
from sys import gettrace as tracing

import pytest
import torch
import torch.utils.data

import escapement

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]
SIZES = (3, 4, 3)


def hits_of(function):
    return sum(version["hits"] for region in function.info()["regions"] for version in region["versions"])


# --- what is compared

class Worker:
    id = 3


def in_worker(i, monkeypatch):
    monkeypatch.setattr(torch.utils.data._utils.worker, "_worker_info", (None, Worker())[i])


def other_thread(i, monkeypatch):
    if i and not OTHERS:
        OTHERS.append((threading.Thread(target=lambda: stop.wait(), daemon=True), stop := threading.Event()))
        OTHERS[0][0].start()
    elif OTHERS and not i:
        thread, stop = OTHERS.pop()
        stop.set(), thread.join()


OTHERS, NAMED = [], multiprocessing.Process(name="another process")
COMPARED = {
    "worker": (lambda: 1 if torch.utils.data.get_worker_info() is None else 2, in_worker), "threads": (threading.active_count, other_thread), "their names": (lambda: len(threading.enumerate()), other_thread),
    "process": (lambda: len(multiprocessing.current_process().name), lambda i, patch: patch.setattr(multiprocessing.process, "_current_process", (ITSELF, NAMED)[i])),
}
ITSELF = multiprocessing.current_process()


@pytest.mark.parametrize("name", COMPARED)
@torch.no_grad()
def test_it_is_compared(name, monkeypatch):
    ask, change = COMPARED[name]
    function = escapement.jit(lambda x: x * ask())
    for i in (0, 1, 0, 1, 0):
        change(i, monkeypatch)
        for size in SIZES:
            assert function(torch.ones(size)).tolist() == [ask()] * size, i
    info = function.info()
    assert info["recordings"] <= 3 and not info["eager"] and hits_of(function) >= 10, info


@torch.no_grad()
def test_groups_of_processes():
    function = escapement.jit(lambda x: x * (1 + torch.distributed.get_world_size() if torch.distributed.is_initialized() else 5))
    for i in range(6):
        if i % 2:
            torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        for size in SIZES:
            assert function(torch.ones(size)).tolist() == [2.0 if i % 2 else 5.0] * size, i
        if i % 2:
            torch.distributed.destroy_process_group()
    assert function.info()["recordings"] <= 4 and hits_of(function) >= 8, function.info()


# --- what is asked at every call

def of_loop():
    try:
        return id(asyncio.get_running_loop()) and 1
    except RuntimeError:
        return 2


def of_task():
    try:
        return len(asyncio.current_task().get_name())
    except RuntimeError:
        return 0


def of_error():
    return 1 if sys.exc_info()[0] is None else len(sys.exc_info()[0].__name__)


ASKED = {
    "loop": of_loop, "task": of_task, "error": of_error, "stack": lambda: len([1 for frame in inspect.stack() if frame.function.startswith("asking")]), "frame": lambda: asks(sys._getframe()),
    "traceback": lambda: len([1 for frame in traceback.extract_stack() if frame.name.startswith("asking")]),
}


def asks(frame):
    found = 0
    while frame:
        found, frame = found + frame.f_code.co_name.startswith("asking"), frame.f_back
    return found


def asking(call):
    return call()


def asking_twice(call):
    return asking(call)


def in_a_loop(call):
    async def run():
        asyncio.current_task().set_name("a name of its own")
        return call()
    return asyncio.run(run())


def in_an_error(call):
    try:
        raise NotImplementedError
    except NotImplementedError:
        return call()


@pytest.mark.parametrize("name", ASKED)
@torch.no_grad()
def test_it_is_asked_at_every_call(name):
    ask = ASKED[name]
    function = escapement.jit(lambda x: x + ask())
    for around in (asking, asking_twice, in_a_loop, in_an_error, asking, in_an_error, in_a_loop, asking_twice, asking):
        assert around(lambda: function(torch.zeros(1))).item() == around(lambda: torch.zeros(1) + ask()).item(), around.__name__


@pytest.mark.parametrize("ask", [lambda: sys.gettrace() is not None, lambda: tracing() is not None], ids=["by name", "alias"])
@torch.no_grad()
def test_who_traces(ask):
    def run(x):
        try:
            traced = ask()
        except ValueError:
            traced = False
        return x * (2 if traced else 3)

    function = escapement.jit(run)
    for _ in range(4):
        assert function(torch.ones(1)).item() == 3
    before = sys.gettrace()
    sys.settrace(lambda *event: None)
    try:
        found = function(torch.ones(1)).item()
    finally:
        sys.settrace(before)
    assert found == 2 and function(torch.ones(1)).item() == 3


def asks_where_no_search_looks(x):
    try:
        return x * (2 if logging.asked_by_this_test() is not None else 3)
    except ValueError:
        return x


@torch.no_grad()
def test_who_traces_when_no_search_has_met_who_asks(monkeypatch):
    monkeypatch.setattr(logging, "asked_by_this_test", lambda: vars(sys)["get" + "trace"](), raising=False)
    function, before = escapement.jit(asks_where_no_search_looks), sys.gettrace()
    expected = 3 if before is None else 2
    assert [function(torch.ones(1)).item() for _ in range(5)] == [expected] * 5
    assert sys.gettrace() is before


@torch.no_grad()
def test_seeds_of_the_system():
    function = escapement.jit(lambda x: x.double() + torch.Generator().seed() % 2**48)
    assert len({function(torch.zeros(1)).item() for _ in range(5)}) == 5


# --- what stays compiled

def own_error(x):
    try:
        raise KeyError("own")
    except KeyError:
        return x * len(sys.exc_info()[0].__name__)


def own_loop(x):
    async def run():
        await asyncio.sleep(0)
        return x * 2
    return asyncio.run(run()) if x.dim() == 9 else x * 2


def with_contexts(x):
    import contextlib
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        return torch.nn.functional.softplus(x) + torch.nn.functional.interpolate(x[None, None], scale_factor=1.0)[0, 0]


@pytest.mark.parametrize("function", [own_error, own_loop, with_contexts, lambda x: torch.nn.functional.multi_head_attention_forward.__name__ and x + 1])
@torch.no_grad()
def test_what_stays_compiled(function):
    compiled = escapement.jit(function)
    for size in (3, 4, 7, 5, 3):
        torch.testing.assert_close(compiled(torch.ones(size)), function(torch.ones(size)))
    info = compiled.info()
    assert info["recordings"] <= 1 and not info["eager"] and hits_of(compiled) >= 4, info
