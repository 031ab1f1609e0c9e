"""Host states that a call may meet: modes it runs under, and what else goes on meanwhile.

A mode is a context that eager runs under as well. A disturbance happens to our side only, and must not be seen in its results: other
threads call at the same time, the process forks, a signal ends a call half-way and it is made again.
"""

import concurrent.futures
import contextlib
import os
import signal
import sys
import threading
import time

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from arguments import drawn


class PassFunctions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class PassDispatch(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


@contextlib.contextmanager
def changed(get, change, value):
    before = get()
    change(value)
    try:
        yield
    finally:
        change(before)


MODES = {
    "no_grad": torch.no_grad, "grad": contextlib.nullcontext, "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "float64": lambda: changed(torch.get_default_dtype, torch.set_default_dtype, torch.float64),
    "threads": lambda: changed(torch.get_num_threads, torch.set_num_threads, 2),
    "deterministic": lambda: changed(torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms, True),
    "function mode": PassFunctions, "dispatch mode": PassDispatch,
    "no autocast": lambda: torch.autocast("cpu", enabled=False), "vmap": contextlib.nullcontext,
}
TRANSFORMS = {"vmap": lambda function: torch.func.vmap(function, randomness="same")}   # modes that are no contexts
DISTURBANCES = ["", "", "", "", "thread", "threads", "threads", "fork", "interrupt", "interrupt", "raise", "raise"]


def apart(function, arguments):
    def run():
        with contextlib.suppress(Exception):   # the program's own, which the disturbed call raises as well
            function(*arguments)
    return threading.Thread(target=run)


def in_thread(function, arguments, others, mode):
    """Modes belong to threads: the other one enters it too."""
    def run():
        with MODES[mode]():
            return function(*arguments)

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        result = pool.submit(run)
        running = list(pool._threads)
    wait_for_end(running)
    return result.result()


def beside_threads(function, arguments, others, mode):
    running = [apart(function, mine) for mine in others(3)]
    for thread in running:
        thread.start()
    try:
        return function(*arguments)
    finally:
        for thread in running:
            thread.join()
        wait_for_end(running)


def wait_for_end(threads):
    """`join` returns while a thread still frees what it had: MKL's memory under a lock, which a child that is forked meanwhile would find held."""
    end = time.monotonic() + 1
    while any(os.path.exists(f"/proc/self/task/{thread.native_id}") for thread in threads) and time.monotonic() < end:
        time.sleep(0.0001)


def after_fork(function, arguments, others, mode):
    mine = others(1)[0]
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            torch.set_num_threads(1)   # the threads of GNU's OpenMP are not in a child: a parallel loop of ATen's waits for them for ever
            function(*mine)
            status = 0
        except Exception:
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    if status:
        raise SystemError(f"a forked child ended with status {status}")
    return function(*arguments)


class Interrupted(BaseException):
    pass


STACKS = [(torch._C._len_torch_function_stack, torch._C._get_function_stack_at, torch._C._push_on_torch_function_stack),
          (torch._C._len_torch_dispatch_stack, torch._C._get_dispatch_stack_at, torch._C._push_on_torch_dispatch_stack)]


def python_modes():
    return [[get(i) for i in range(count())] for count, get, _ in STACKS]


def put_back(modes):
    """torch takes a mode off its stack while its handler runs, and an interrupt at that very bytecode loses it."""
    for (count, _, push), before in zip(STACKS, modes):
        for mode in before[count():]:
            push(mode)


def autocast():
    return torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")


def put_autocast_back(enabled, dtype):
    """An interrupt at the beginning of `torch.autocast.__exit__` leaves it on. (A mode that ends with its object is not put back: nobody may keep that.)"""
    torch.set_autocast_enabled("cpu", enabled)
    torch.set_autocast_dtype("cpu", dtype)


def interrupted(function, arguments, others, mode):
    armed, modes, cast = [], python_modes(), autocast()

    def stop(*_):
        if armed:
            armed.clear()
            raise Interrupted

    before = signal.signal(signal.SIGALRM, stop)
    try:
        for mine, moment in zip(others(3), (0.0002, 0.001, 0.005)):
            try:
                armed.append(True)
                signal.setitimer(signal.ITIMER_REAL, moment)
                with contextlib.suppress(Exception):
                    function(*mine)
                armed.clear()
            except Interrupted:
                pass
            armed.clear()
            signal.setitimer(signal.ITIMER_REAL, 0)
            put_back(modes)
            put_autocast_back(*cast)
    finally:
        signal.signal(signal.SIGALRM, before)
    return function(*arguments)


def raising(function, arguments, others, mode):
    """Calls end at a line of the program, as if what stands there raised."""
    for mine, line in zip(others(3), (1, 2, 4)):
        lines = []

        def stop(frame, event, _):
            if frame.f_code.co_name != "program":
                return None
            lines.append(event)
            if lines.count("line") == line:
                sys.settrace(None)
                raise Interrupted
            return stop

        sys.settrace(stop)
        with contextlib.suppress(Interrupted, Exception):
            function(*mine)
        sys.settrace(None)
    return function(*arguments)


HOW = {"raise": raising, "thread": in_thread, "threads": beside_threads, "fork": after_fork, "interrupt": interrupted}


def disturbed(made, program, call):
    """The function to call under the state that the call names."""
    state = call.get("state", "")
    if state not in HOW:
        return made

    def run(*arguments):
        return HOW[state](made, arguments, lambda count: [list(drawn(program.arguments, call).values()) for _ in range(count)],
                          call.get("mode", "no_grad"))

    return run
