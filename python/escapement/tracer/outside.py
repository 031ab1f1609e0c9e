"""What a program does outside of itself while it is recorded, or learns from there: files, processes, connections, of which Python tells its audit
hooks; clocks, random numbers of the system, what it says of files, of which the core tells (`src/torch/python/outside_calls.h`). And what comes from outside at any time, and so is none of its doing (asides).
"""

import contextlib
import datetime
import functools
import gc
import importlib
import inspect
import logging
import os
import random
import select
import sys
import threading
import time
import traceback
import weakref

import _asyncio
import _signal
import torch

try:
    import _uuid
except ImportError:   # a Python without it asks the clock
    _uuid = None

from ..core import core
from ..interrupts import code_of, handlers_of_signals
from ..recording.locator import FRAMEWORK
from .homes import of_library

EVENTS = frozenset("""
    open os.remove os.rename os.mkdir os.rmdir os.link os.symlink os.truncate os.putenv os.unsetenv os.system os.exec os.posix_spawn os.spawn os.startfile
    shutil.copyfile shutil.copytree shutil.move shutil.rmtree shutil.make_archive shutil.unpack_archive tempfile.mkdtemp tempfile.mkstemp
    subprocess.Popen socket.bind socket.connect socket.sendto socket.sendmsg urllib.Request ftplib.connect http.client.connect smtplib.connect
    sqlite3.connect time.sleep builtins.input os.listdir os.scandir os.chdir os.chmod os.chown os.utime os.kill os.killpg os.fork os.setxattr os.removexattr
    signal.pthread_kill resource.setrlimit
""".split())   # of Python's audit hooks
LISTED = "os.listdir", "os.scandir"
CLOCKS = """time time_ns monotonic monotonic_ns perf_counter perf_counter_ns process_time process_time_ns thread_time thread_time_ns clock_gettime
            clock_gettime_ns localtime gmtime ctime strftime""".split()
SYSTEMS = """urandom getrandom stat lstat fstat access times getloadavg getcwd getcwdb read pread readv preadv getpid getppid wait waitpid wait3 wait4 waitid
             isatty get_terminal_size cpu_count sched_getaffinity getpriority umask""".split()   # functions of `os`
PROCESS = ((sys, "getrecursionlimit getswitchinterval setrecursionlimit setswitchinterval"), (threading, "get_ident get_native_id"), (select, "select"),
           (sys, "_getframe exc_info getprofile"), (_asyncio, "get_running_loop _get_running_loop get_event_loop current_task"),
           (_signal, "getsignal signal set_wakeup_fd setitimer alarm"), (gc, "isenabled get_threshold get_count get_debug enable disable freeze unfreeze set_threshold set_debug"))
SETTINGS = """get_num_threads is_anomaly_enabled is_anomaly_check_nan_enabled get_autocast_dtype is_autocast_cache_enabled set_num_threads
              set_flush_denormal""".split()   # of torch
OF_CALLERS = frozenset("_getframe exc_info getprofile get_running_loop _get_running_loop get_event_loop current_task".split())   # libraries ask about what is their own
PASSING_TASKS = frozenset(("current_task", "all_tasks", "get_event_loop"))   # functions of Python
GENERATOR = "initial_seed manual_seed seed get_state set_state graphsafe_get_state graphsafe_set_state clone_state".split()
UUIDS = "generate_time_safe", "UuidCreate"
CODE = (".py", ".pyc", ".pyi", ".so")   # that Python reads for itself, as it imports or shows a line
SYSTEM = ("/proc/", "/sys/")            # what the system says of itself
NOTES = ("logging", "warnings.py", "threading.py", "queue.py", "linecache.py", "inspect.py", "tokenize.py", "traceback.py", "importlib", "zipimport.py", "dataclasses.py", "reprlib.py")
HOME = os.path.dirname(os.__file__) + os.sep   # of the standard library, where these ask for themselves
QUIET = (*(place for place in FRAMEWORK if place != "<frozen"), "<frozen importlib", "<frozen zipimport", *(HOME + name for name in NOTES))
PASSED_ON = ("<frozen genericpath", "<frozen posixpath", "<frozen os", *(HOME + name for name in ("genericpath.py", "posixpath.py", "os.py", "pathlib.py", "signal.py")),
             torch.random.__file__, *(os.path.join(os.path.dirname(torch.__file__), part) for part in ("_compile.py", os.path.join("_dynamo", "eval_frame.py"))))   # these decorate it
OF_STACKS = *((inspect, name) for name in ("stack", "currentframe")), *((traceback, name) for name in ("extract_stack", "format_stack", "walk_stack")), (sys, "gettrace")
COMPILER = tuple(os.path.join(os.path.dirname(torch.__file__), part) for part in ("_inductor", "_dynamo"))   # which torch.cond asks, and makes folders for itself
HERE = os.path.dirname(os.path.dirname(__file__)) + os.sep   # of this package
CURRENT_THREAD = threading.current_thread.__code__
PROGRESS = ("tqdm.", "rich.")   # what they show is printed, which happens while recording only

seen_in = {}   # thread -> how many


def note(event, arguments):
    if event not in EVENTS:
        return
    name = arguments[0] if event == "open" and arguments else None
    if isinstance(name, str) and (name.endswith(CODE) or name.startswith(SYSTEM)):
        return
    asked_by = caller_of_libraries(sys._getframe(1))
    if event in LISTED and is_quiet(asked_by) or asked_by.f_code.co_filename.startswith(COMPILER):
        return
    count()


def count():
    thread = threading.get_ident()
    seen_in[thread] = seen_in.get(thread, 0) + 1


def read_anew():
    """Functions of C that answer otherwise at each call."""
    rows = (time, CLOCKS), (os, SYSTEMS), (_uuid, UUIDS), *((module, names.split()) for module, names in PROCESS)
    found = [getattr(module, name, None) for module, names in rows for name in names]
    days = datetime.datetime.now, datetime.datetime.utcnow, datetime.datetime.today, datetime.date.today
    torchs = *(getattr(torch.default_generator, name) for name in GENERATOR), *(getattr(torch, name) for name in SETTINGS), torch._C._get_warnAlways, torch._C._autograd._profiler_enabled
    return [*filter(None, found), *days, *torchs, SEED, DRAWN, PUT, *filter(None, [error_state_maker()])]


DRAWN = super(random.Random, random.Random(0)).getstate   # how far a generator has come
SEED = super(random.Random, random.Random(0)).seed   # from the system, where no seed is given
PUT = super(random.Random, random.Random(0)).setstate
OF_RANDOM = frozenset((DRAWN.__name__, SEED.__name__, PUT.__name__))   # which methods in Python call
KNOWN = weakref.WeakValueDictionary()   # id -> a generator of Python's that was there before a recording


def error_state_maker():
    """What NumPy does where numbers overflow is set by this."""
    return getattr(sys.modules.get("numpy._core.umath"), "_make_extobj", None)


@functools.cache
def tell_of_calls():
    core().outside_calls(read_anew(), called, gc.collect)
    gc.callbacks.insert(0, core().collection)


def called(function, frame):
    """State is put into what was there before, or asked for. That a state is put where it is already cannot be told by comparing."""
    if function is error_state_maker() and not frame.f_code.co_name.startswith("set"):   # `errstate`, which takes it back
        return
    if function.__name__ in OF_CALLERS and not asks_of_callers(function, frame):
        return
    if is_of_random(function):
        if is_put(function, frame) and not is_known(function.__self__):
            return
        frame = frame.f_back or frame   # this package asks, too (watch.py)
    if not is_quiet(frame):
        count()


def asks_of_callers(function, frame):
    """Only what has been there before: not of an error that the program handles itself."""
    if frame.f_back and frame.f_code.co_name in PASSING_TASKS:
        frame = frame.f_back
    if of_library(frame.f_code.co_filename):
        return False
    error = sys.exc_info()[1] if function.__name__ == "exc_info" else None
    return error is None or error.__traceback__ is None or not is_within(error.__traceback__.tb_frame, frame)


def is_within(caught, frame):
    """Whether this frame was entered after a recording began."""
    while frame is not None and not frame.f_code.co_filename.startswith(HERE):
        if frame is caught:
            return True
        frame = frame.f_back
    return False


def is_of_random(function):
    return function.__name__ in OF_RANDOM and isinstance(function.__self__, random.Random)


def is_put(function, frame):
    """Not the system's."""
    return function.__name__ == PUT.__name__ or function.__name__ == SEED.__name__ and frame.f_locals.get("a") is not None


def is_known(generator):
    return generator is random._inst or KNOWN.get(id(generator)) is generator


def is_unseen(value):
    """Functions that put state where no call of C is seen and a value that is there already is not told from one that comes; or that tell of who calls and traces."""
    numpy = sys.modules.get("numpy")
    random_of_numpy = sys.modules.get("numpy.random")   # which an attribute would load
    unseen = *((random_of_numpy, name) for name in ("seed", "set_state", "get_state")), (numpy, "set_printoptions"), (torch, "set_printoptions"), (logging, "disable"), *OF_STACKS
    return callable(value) and any(value is getattr(home, name, None) for home, name in unseen if home is not None)


def note_randoms(generators):
    """Whose seeding is a change of what is elsewhere."""
    KNOWN.update((id(each), each) for each in generators if isinstance(each, random.Random))


def caller_of_libraries(frame):
    while frame.f_back and frame.f_code.co_filename.startswith(PASSED_ON):
        frame = frame.f_back
    return frame


def is_quiet(frame):
    """A library asks for itself."""
    if frame.f_back and frame.f_code is CURRENT_THREAD:
        frame = frame.f_back
    frame = caller_of_libraries(frame)
    return frame.f_code.co_filename.startswith(QUIET) or frame.f_globals.get("__name__", "").startswith(PROGRESS)


def asides():
    """Code that is not the program's doing wherever it runs: what a file does as it is imported, once in a process, whoever calls; what the collector of garbage and
    signals call, at any time."""
    return importlib._bootstrap._find_and_load.__code__, collect_garbage.__code__, *filter(None, map(code_of, gc.callbacks)), *handlers_of_signals()


def collect_garbage():
    """For ourselves."""
    return gc.collect()


@contextlib.contextmanager
def calls_watched(code=None):
    """In this thread. `code`: a dict that gets what code runs (ran.py)."""
    tell_of_calls()
    watch = core().watch_calls(code, asides() if code is not None else ())   # it ends with the object, wherever an interrupt comes
    try:
        yield
    finally:
        del watch


def events_seen():
    """How many such things this thread has done, since somebody first asked."""
    return seen_in.get(threading.get_ident(), 0)


sys.addaudithook(note)   # for good: there is no way to take one back
