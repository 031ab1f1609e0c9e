"""What a program reads that lies outside of Python's objects: clocks, random numbers of the system, files' states are read at every call; variables of the
process, of a thread and of a context are compared at every call, and versions serve those values that they know.
"""

import contextvars
import cProfile
import datetime
import logging
import os
import random
import secrets
import sys
import tempfile
import threading
import time
import uuid
import warnings

import numpy as np
import pytest
import torch

import escapement

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]
SIZES = (3, 0, 1, 7, 3)

# Two readings are never equal.
ANEW = {
    "time": time.time, "time_ns": lambda: time.time_ns() % 10**12, "monotonic": time.monotonic, "perf_counter": time.perf_counter, "perf_counter_ns": lambda: time.perf_counter_ns() % 10**12,
    "process_time": time.process_time_ns, "thread_time": time.thread_time_ns, "clock_gettime": lambda: time.clock_gettime(time.CLOCK_MONOTONIC),
    "now": lambda: datetime.datetime.now().timestamp(), "utcnow": lambda: datetime.datetime.utcnow().timestamp(), "now of a zone": lambda: datetime.datetime.now(datetime.timezone.utc).timestamp(),
    "urandom": lambda: int.from_bytes(os.urandom(6), "big"), "getrandom": lambda: int.from_bytes(os.getrandom(6), "big"), "randbits": lambda: secrets.randbits(48), "token": lambda: int(secrets.token_hex(6), 16),
    "uuid4": lambda: uuid.uuid4().int % 2**48, "uuid1": lambda: uuid.uuid1().int >> 80, "SystemRandom": lambda: random.SystemRandom().getrandbits(48), "Random": lambda: random.Random().getrandbits(48),
    "default_rng": lambda: np.random.default_rng().random(), "RandomState": lambda: np.random.RandomState().rand(), "SeedSequence": lambda: int(np.random.SeedSequence().generate_state(1)[0]),
}


@pytest.mark.parametrize("name", ANEW)
def test_read_at_every_call(name):
    function = escapement.jit(lambda x: (x.double() + 1, float(ANEW[name]()) + torch.zeros(1, dtype=torch.float64)))
    read = []
    for size in SIZES:
        time.sleep(0.001)
        y, number = function(torch.ones(size))
        assert y.tolist() == [2.0] * size
        read.append(number.item())
    assert len(set(read)) == len(SIZES), read


def test_seeded_generators_are_constants():
    function = escapement.jit(lambda x: x + random.Random(3).random() + float(np.random.default_rng(3).random()))
    expected = random.Random(3).random() + np.random.default_rng(3).random()
    for size in SIZES:
        torch.testing.assert_close(function(torch.zeros(size)), torch.full((size,), expected))
    assert function.info()["recordings"] == 1 and not function.info()["eager"]


FILES = {
    "exists": lambda x, path: x + os.path.exists(path), "isfile": lambda x, path: x + os.path.isfile(path), "lexists": lambda x, path: x + os.path.lexists(path),
    "access": lambda x, path: x + os.access(path, os.R_OK), "listdir": lambda x, path: x + len(os.listdir(os.path.dirname(path))), "scandir": lambda x, path: x + len([*os.scandir(os.path.dirname(path))]),
    "size": lambda x, path: x + (os.path.getsize(path) if os.path.exists(path) else 0), "changed": lambda x, path: x.double() + (os.stat(path).st_mtime if os.path.exists(path) else 0),
}


@pytest.mark.parametrize("name", FILES)
def test_files_are_looked_at_at_every_call(name, tmp_path):
    function, path = escapement.jit(FILES[name]), tmp_path / "file"
    for turn, size in enumerate(SIZES):
        x = torch.ones(size)
        assert torch.equal(function(x, str(path)), FILES[name](x, str(path)))
        path.unlink() if turn == 3 else path.write_text("x" * turn)


def test_seeds_and_threads_of_torch():
    function = escapement.jit(lambda x: x.double() + torch.initial_seed() % 1000 + 1000 * torch.get_num_threads())
    threads = torch.get_num_threads()
    try:
        for turn in range(4):
            torch.manual_seed(turn)
            torch.set_num_threads(1 + turn % 2)
            assert function(torch.zeros(2)).tolist() == [turn + 1000 * (1 + turn % 2)] * 2
    finally:
        torch.set_num_threads(threads)


def test_it_is_counted():
    function = escapement.jit(lambda x: x * time.perf_counter())
    for size in SIZES:
        function(torch.ones(size))
    assert "state_changed" in function.info()["eager"]


# --- variables of the process, of a thread, of a context

CONTEXT = contextvars.ContextVar("scale", default=1.0)
UNSET = contextvars.ContextVar("unset")
SETTINGS = threading.local()
SETTINGS.scale = 1.0


class Defaults(threading.local):
    scale = 1.0


class SetUp(threading.local):
    def __init__(self):
        self.scale, self.tensor = 1.0, torch.ones(())


DEFAULTS, SET_UP = Defaults(), SetUp()
NAME = "ESCAPEMENT_TEST_READ_OUTSIDE"


def set_environment(value):
    if value is None:
        os.environ.pop("ESCAPEMENT_TEST_READ_OUTSIDE", None)
    else:
        os.environ["ESCAPEMENT_TEST_READ_OUTSIDE"] = str(value)


def environment_item(x):
    try:
        return x * float(os.environ["ESCAPEMENT_TEST_READ_OUTSIDE"])
    except KeyError:
        return x - 1


VARIABLES = {
    "context": (lambda x: x * CONTEXT.get(), CONTEXT.set, (2.0, 3.0)), "context unset": (lambda x: x * UNSET.get(5.0), UNSET.set, (2.0, 3.0)),
    "context holds a tensor": (lambda x: x * UNSET.get(torch.ones(())), lambda v: UNSET.set(torch.tensor(v)), (2.0, 3.0)),
    "thread": (lambda x: x * SETTINGS.scale, lambda v: setattr(SETTINGS, "scale", v), (2.0, 3.0)), "getattr": (lambda x: x * getattr(SETTINGS, "scale", 0), lambda v: setattr(SETTINGS, "scale", v), (2, 3)),
    "default": (lambda x: x * DEFAULTS.scale, lambda v: setattr(DEFAULTS, "scale", v), (2.0, 3.0)), "set up": (lambda x: x * SET_UP.scale, lambda v: setattr(SET_UP, "scale", v), (2.0, 3.0)),
    "thread holds a tensor": (lambda x: x * SET_UP.tensor, lambda v: setattr(SET_UP, "tensor", torch.tensor(v)), (2.0, 3.0)),
    "item": (environment_item, set_environment, ("2", "3")), "item or not": (environment_item, set_environment, (None, "3")),
    "get": (lambda x: x * float(os.environ.get("ESCAPEMENT_TEST_READ_OUTSIDE", "7")), set_environment, (None, "3")), "getenv": (lambda x: x * float(os.getenv("ESCAPEMENT_TEST_READ_OUTSIDE", 7)), set_environment, (None, "3")),
    "in": (lambda x: x * 2 if "ESCAPEMENT_TEST_READ_OUTSIDE" in os.environ else x, set_environment, (None, "3")),
    "computed": (lambda x, at="READ": x * float(vars(os)["environ"].get(f"ESCAPEMENT_TEST_{at}_OUTSIDE", "7")), set_environment, ("4", "3")),
}


@pytest.mark.parametrize("name", VARIABLES)
@torch.no_grad()
def test_variables_are_compared(name):
    """Values that were met before are served."""
    program, put, values = VARIABLES[name]
    function = escapement.jit(program)

    def calls():
        for size in (4, 1, 0):
            for value in values:
                put(value)
                x = torch.rand(size)
                assert torch.equal(function(x), program(x)), (value, size)

    try:
        contextvars.copy_context().run(calls)
        kept = "holds a tensor" not in name
        assert not kept or function.info()["recordings"] == len(values), function.info()
    finally:
        set_environment(None)


@pytest.mark.parametrize("owner", [SETTINGS, DEFAULTS, SET_UP], ids=["plain", "default", "set up"])
@torch.no_grad()
def test_each_thread_has_its_own(owner):
    owner.scale = 2.0
    function, found = escapement.jit(lambda x: x * getattr(owner, "scale", 9.0)), []
    assert function(torch.ones(2)).tolist() == [2, 2]

    def other():
        found.append(function(torch.ones(3)).tolist())
        owner.scale = 4.0
        found.append(function(torch.ones(1)).tolist())

    for _ in range(2):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert function(torch.ones(2)).tolist() == [2, 2]
    first = 9.0 if owner is SETTINGS else 1.0
    assert found == [[first] * 3, [4.0]] * 2


# --- what is no reading

def logs(x):
    logging.getLogger("escapement.test").info("of %s", x.shape)
    return x + 1


def warns(x):
    warnings.warn("often", stacklevel=1)
    return x + 1


def imports(x):
    import colorsys
    return x + colorsys.ONE_THIRD * 3


def locks(x):
    with threading.Condition():
        return x + 1


def shows_progress(x):
    for _ in pytest.importorskip("tqdm").tqdm(range(4), disable=False):
        x = x + 0.25
    return x


@pytest.mark.parametrize("program", [logs, warns, imports, locks, shows_progress])
def test_libraries_that_look_at_clocks_for_themselves(program):
    sys.modules.pop("colorsys", None)
    function = escapement.jit(program)
    for size in SIZES:
        assert function(torch.ones(size)).tolist() == [2.0] * size
    assert function.info()["recordings"] == 1 and not function.info()["eager"], function.info()


def test_a_profiler_goes_on():
    """It sees the recording too, and is the thread's profiler afterwards."""
    profile, function = cProfile.Profile(), escapement.jit(lambda x: x.relu() + random.Random(1).random())
    profile.enable()
    try:
        function(torch.ones(3))
        time.monotonic()
    finally:
        profile.disable()
    seen = {str(entry.code) for entry in profile.getstats()}
    assert any("monotonic" in name for name in seen) and any("relu" in name for name in seen)
    assert sys.getprofile() is None


def test_a_profiler_that_the_program_begins():
    events = []

    def program(x):
        sys.setprofile(lambda frame, event, argument: events.append(event))
        try:
            return x.relu() + len(tempfile.gettempprefix())
        finally:
            sys.setprofile(None)

    function = escapement.jit(program)
    for size in SIZES:
        assert torch.equal(function(torch.ones(size)), program(torch.ones(size)))
    assert sys.getprofile() is None and events


def test_nothing_watches_behind_an_exception():
    def program(x):
        raise LookupError(time.ctime())

    with pytest.raises(LookupError):
        escapement.jit(program)(torch.ones(2))
    assert sys.getprofile() is None
