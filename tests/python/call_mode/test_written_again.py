"""State of the process that a program writes though the same is there already: it is written at every call, since others may have changed it by then."""

import gc
import logging
import os
import random
import signal
import sys

import numpy as np
import pytest
import torch

import escapement

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]
OWN, OF_TORCH, OLDER = random.Random(0), torch.Generator(), np.random.RandomState(0)
seeded, signals = np.random.seed, (lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN))


def handled(number, frame):
    pass


def forked():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return torch.rand(2)


# name -> (what the function does, what others do between its calls, what tells)
WRITTEN = {
    "torch": (lambda: torch.manual_seed(0), lambda i: torch.manual_seed(i), lambda: torch.rand(2)),
    "torch's states": (lambda: torch.set_rng_state(STATE), lambda i: torch.manual_seed(i), lambda: torch.rand(2)),
    "forked": (forked, lambda i: torch.manual_seed(i), lambda: torch.rand(2)),
    "a generator": (lambda: OF_TORCH.manual_seed(0), lambda i: OF_TORCH.manual_seed(i), lambda: torch.rand(2, generator=OF_TORCH)),
    "random": (lambda: random.seed(0), lambda i: random.seed(i), random.random),
    "random's state": (lambda: random.setstate(OF_RANDOM), lambda i: random.seed(i), random.random),
    "a Random": (lambda: OWN.seed(0), lambda i: OWN.seed(i), OWN.random),
    "NumPy": (lambda: np.random.seed(0), lambda i: np.random.seed(i), np.random.rand),
    "NumPy's state": (lambda: np.random.set_state(OF_NUMPY), lambda i: np.random.seed(i), np.random.rand),
    "NumPy under another name": (lambda: seeded(0), lambda i: np.random.seed(i), np.random.rand),
    "RandomState": (lambda: OLDER.seed(0), lambda i: OLDER.seed(i), OLDER.rand),
    "seterr": (lambda: np.seterr(over="warn"), lambda i: np.seterr(over="ignore" if i else "warn"), lambda: np.geterr()["over"]),
    "gc.disable": (gc.disable, lambda i: gc.enable() if i else gc.disable(), gc.isenabled),
    "gc.enable": (gc.enable, lambda i: gc.disable() if i else gc.enable(), gc.isenabled),
    "recursion": (lambda: sys.setrecursionlimit(3000), lambda i: sys.setrecursionlimit(3000 + i), sys.getrecursionlimit),
    "switches": (lambda: sys.setswitchinterval(0.005), lambda i: sys.setswitchinterval(0.005 + i / 1000), sys.getswitchinterval),
    "signal": (lambda: signals(), lambda i: signal.signal(signal.SIGUSR1, handled if i else signal.SIG_IGN), lambda: signal.getsignal(signal.SIGUSR1)),
    "chdir": (lambda: os.chdir("/"), lambda i: os.chdir("/tmp" if i else "/"), os.getcwd),
    "logging": (lambda: logging.disable(0), lambda i: logging.disable(10 * i), lambda: logging.root.manager.disable),
    "torch prints": (lambda: torch.set_printoptions(precision=4), lambda i: torch.set_printoptions(precision=4 + i), lambda: str(torch.tensor(1 / 3))),
    "NumPy prints": (lambda: np.set_printoptions(precision=8), lambda i: np.set_printoptions(precision=8 - i), lambda: str(np.float64(1 / 3)) + str(np.ones(1) / 3)),
    "threads": (lambda: torch.set_num_threads(1), lambda i: torch.set_num_threads(1 + i % 2), torch.get_num_threads),
}


@pytest.fixture(autouse=True)
def put_back():
    """What these tests set."""
    here, limit, interval, threads, errors, collects = os.getcwd(), sys.getrecursionlimit(), sys.getswitchinterval(), torch.get_num_threads(), np.geterr(), gc.isenabled()
    yield
    os.chdir(here), sys.setrecursionlimit(limit), sys.setswitchinterval(interval), torch.set_num_threads(threads), np.seterr(**errors), logging.disable(0)
    gc.enable() if collects else gc.disable()
    torch.set_printoptions(precision=4), np.set_printoptions(precision=8), signal.signal(signal.SIGUSR1, signal.SIG_DFL)


STATE, OF_RANDOM, OF_NUMPY = torch.Generator().manual_seed(0).get_state(), random.Random(0).getstate(), np.random.RandomState(0).get_state()


@pytest.mark.parametrize("name", WRITTEN)
@torch.no_grad()
def test_it_is_written_at_every_call(name):
    write, others, tell = WRITTEN[name]
    function, seen = escapement.jit(lambda x: (write(), x + 1)[1]), []
    for run in (lambda: function(torch.ones(3)), write):
        seen.append([])
        for i in (0, 1, 2, 0, 3, 1):
            others(i)
            run()
            seen[-1].append(str(tell()))
    assert seen[0] == seen[1]


def drawn(x):
    torch.manual_seed(0)
    return torch.nn.functional.dropout(x, 0.5) + torch.rand(x.shape)


@torch.no_grad()
def test_what_is_drawn_after_it():
    torch.manual_seed(0)
    function = escapement.jit(drawn)
    for size in (3, 3, 5, 0, 3):
        assert torch.equal(function(torch.ones(size)), drawn(torch.ones(size)))


STATES = {
    "torch": lambda: int(torch.get_rng_state()[:16].float().mean()), "a generator": lambda: int(OF_TORCH.get_state()[:16].float().mean()), "random": lambda: random.getstate()[1][3] % 1009,
    "NumPy": lambda: int(np.random.get_state()[1][3] % 1009), "RandomState": lambda: int(OLDER.get_state()[1][3] % 1009),
}


@pytest.mark.parametrize("name", STATES)
@torch.no_grad()
def test_how_far_a_generator_has_come_is_asked_at_every_call(name):
    function = escapement.jit(lambda x: x + STATES[name]())
    for seed in (0, 1000003, 2, 77777, 0):
        torch.manual_seed(seed), OF_TORCH.manual_seed(seed), random.seed(seed), np.random.seed(seed), OLDER.seed(seed)
        assert function(torch.zeros(1)).item() == STATES[name]()


def with_errors(x):
    with np.errstate(over="ignore"):
        return x + float(np.float32(3) * 2)


def with_own_generators(x):
    return x + random.Random(3).random() + float(np.random.default_rng(3).random())


def seeds_if(x, seed=None):
    if seed is not None:
        np.random.seed(seed)
        torch.set_printoptions(precision=seed)
    return x * 2


def with_a_seed_of_its_own(x):
    own = random.Random(3)
    own.seed(4)
    return x + own.random()


@pytest.mark.parametrize("function", [with_errors, with_own_generators, with_a_seed_of_its_own, lambda x: torch.rand(x.shape), lambda x: x + x.std() * random.random.__name__.count("r")])
@torch.no_grad()
def test_what_writes_nothing_stays_compiled(function):
    compiled = escapement.jit(function)
    for size in (3, 4, 7, 5, 3):
        torch.manual_seed(1)
        ours = compiled(torch.ones(size))
        torch.manual_seed(1)
        torch.testing.assert_close(ours, function(torch.ones(size)), equal_nan=True)
    info = compiled.info()
    assert info["recordings"] == 1 and not info["eager"] and not any(region["fallbacks"] for region in info["regions"]), info


@torch.no_grad()
def test_what_is_not_run_does_not_count():
    compiled = escapement.jit(lambda x: seeds_if(x) if x.dim() == 9 else x * 2)
    for size in range(1, 12):
        assert compiled(torch.ones(size)).tolist() == [2.0] * size
    info = compiled.info()
    assert info["recordings"] <= 2 and sum(version["hits"] for region in info["regions"] for version in region["versions"]) >= 8, info
