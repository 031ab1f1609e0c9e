"""escapement.jit in forked and spawned processes: DataLoader workers, fork after compiling, fork while another thread compiles.

torch's own thread pool does not survive a fork, so each test runs in a process of its own, with one thread."""
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PREAMBLE = """
import os, sys, threading, time
import torch
import escapement

torch.set_num_threads(1)
torch.set_grad_enabled(False)

def exit_code(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def in_child(action):
    child = os.fork()
    if child == 0:
        try:
            action()
            os._exit(0)
        except BaseException as error:
            print("child:", repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    assert exit_code(child) == 0

def same(jitted, fn, *sizes):
    for size in sizes:
        x = torch.randn(size)
        assert torch.equal(jitted(x), fn(x)), size
"""


def run(tmp_path, program):
    file = tmp_path / "program.py"
    file.write_text(PREAMBLE + textwrap.dedent(program))
    # ThreadSanitizer's detector of deadlocks counts to 64 locks in one thread, and a fork takes those of all functions.
    sanitizer = {"TSAN_OPTIONS": os.environ.get("TSAN_OPTIONS", "") + " detect_deadlocks=0 log_path=stderr"}
    process = subprocess.Popen([sys.executable, file], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env={**os.environ, **sanitizer})
    try:
        stdout, stderr = process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)   # its children, too
        if "libtsan" not in os.environ.get("LD_PRELOAD", ""):
            raise
        pytest.skip("a fork while another thread is inside of ThreadSanitizer leaves its lock of the stacks taken in the child")
    if "ThreadSanitizer: dup thread with used id" in stderr:
        pytest.skip("ThreadSanitizer gives up where a child's thread has the number of one that the parent has")
    assert process.returncode == 0, stdout + stderr
    return stdout


def test_versions_made_before_a_fork_serve_in_the_child_and_new_ones_are_made_there(tmp_path):
    run(tmp_path, """
    fn = lambda x: torch.relu(x * 2 + 1) - x
    other = lambda x: torch.relu(x) - x * 3
    jitted, fresh = escapement.jit(fn), escapement.jit(other)
    same(jitted, fn, (3, 4), (5, 7))

    def child():
        same(jitted, fn, (1, 9), (0, 3), (31, 2))
        assert jitted.info()["recordings"] == 1
        same(fresh, other, 5, 1, 0, 17)
        assert fresh.info()["recordings"] == 1

    in_child(child)
    in_child(child)
    assert fresh.info()["recordings"] == 0
    same(fresh, other, 4, 2)
    """)


def test_a_fork_while_another_thread_records(tmp_path):
    run(tmp_path, """
    inside, go_on = threading.Event(), threading.Event()
    threading.inside, threading.go_on = inside, go_on   # attributes of a library's module: the state of an event that the function names is watched
    plain = lambda x: torch.relu(x * 2) + 1

    def slow(x):
        y = x * 2
        threading.inside.set()
        threading.go_on.wait()
        return torch.relu(y) + 1

    jitted = escapement.jit(slow)

    def record():
        with torch.no_grad():
            jitted(torch.randn(3))

    thread = threading.Thread(target=record)
    thread.start()
    inside.wait()

    def child():
        go_on.set()
        same(jitted, plain, 4, 1, 0, 9)
        info = jitted.info()
        assert len(info["regions"][0]["versions"]) == 1 and not info["eager"] and not info["regions"][0]["fallbacks"], info

    in_child(child)
    go_on.set()
    thread.join()
    same(jitted, plain, 4, 1)
    """)


def test_a_fork_while_other_threads_compile(tmp_path):
    run(tmp_path, """
    programs = [lambda x, k=k: torch.tanh(x + k) * k for k in range(200)]
    fn = lambda x: torch.relu(x) * 3 + 1
    # What a process does once (imports, static objects of torch and of the C library) is done: a child could inherit it half-way.
    same(escapement.jit(programs[0]), programs[0], 3)
    same(escapement.jit(fn), fn, 3)
    stop = threading.Event()

    def compile_on():
        for program in programs:
            if stop.is_set():
                return
            with torch.no_grad():
                escapement.jit(program)(torch.randn(7))

    thread = threading.Thread(target=compile_on)
    thread.start()
    for _ in range(10):
        in_child(lambda: same(escapement.jit(fn), fn, 3, 8, 1))
        time.sleep(0.01)
    stop.set()
    thread.join()
    """)


def test_a_child_lets_go_of_what_was_compiled_in_the_background(tmp_path):
    run(tmp_path, """
    same(escapement.jit(torch.neg), torch.neg, 3)   # the library is there
    fn = lambda x: torch.relu(x * 2 + 1) - x
    jitted = escapement.jit(fn, compile="background")
    same(jitted, fn, (3, 4))

    def child():
        global jitted
        same(jitted, fn, (3, 4), (1, 9))   # a thread of its own, behind one that the fork has left in the parent
        del jitted
        import gc
        gc.collect()

    in_child(child)
    same(jitted, fn, (3, 4))
    """)


def test_a_fork_while_another_thread_draws_random_numbers(tmp_path):
    run(tmp_path, """
    same(escapement.jit(torch.neg), torch.neg, 3)   # the library is there
    stop = threading.Event()

    def draw():
        while not stop.is_set():
            torch.randn(100_000)    # which holds the lock of torch's generator most of the time

    thread = threading.Thread(target=draw)
    thread.start()
    fn = lambda x: torch.relu(x) * 3 + 1
    for _ in range(5):
        in_child(lambda: same(escapement.jit(fn), fn, 3, 8, 1))
    stop.set()
    thread.join()
    """)


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_of_a_data_loader(tmp_path, context):
    run(tmp_path, f"""
    import multiprocessing

    def augment(x):
        return (x - x.mean()) / (x.std() + 1) * 2

    class Rows(torch.utils.data.Dataset):
        def __init__(self):
            self.augment = escapement.jit(augment)

        def __len__(self):
            return 24

        def __getitem__(self, i):
            with torch.no_grad():
                made = self.augment(torch.arange(i + 2.0))
            seen = escapement.stats()
            return made, seen["recordings"], seen.get("eager_calls", 0), os.getpid()

    if __name__ == "__main__":
        rows = Rows()
        if {context!r} == "fork":
            rows[0]
        found = torch.utils.data.DataLoader(rows, batch_size=None, num_workers=2, multiprocessing_context={context!r})
        processes = set()
        for i, (made, recordings, eager, process) in enumerate(found):
            torch.testing.assert_close(made, augment(torch.arange(i + 2.0)))
            assert recordings == 1 and eager == 0, (recordings, eager)
            processes.add(process)
        assert len(processes) == 2 and os.getpid() not in processes
    """)


def test_children_are_forked_while_another_thread_makes_large_results(tmp_path):
    """Their memory comes from a pool whose lock another thread may hold when the process forks."""
    run(tmp_path, """
    fn = lambda x: torch.relu(x * 2 + 1) - x
    jitted = escapement.jit(fn)
    x = torch.randn(600_000)
    for _ in range(3):
        jitted(x)
    stop = threading.Event()

    def work():
        while not stop.is_set():
            jitted(x)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        in_child(lambda: same(jitted, fn, 600_000))
    stop.set()
    for thread in threads:
        thread.join()
    """)


def test_what_recordings_put_into_torch_is_not_in_a_child(tmp_path):
    """A recording of another thread does not end there."""
    run(tmp_path, """
    begun, over = threading.Event(), threading.Event()
    def slow(x):
        begun.set()
        over.wait()
        return x[x.shape[0] // 2] * 2
    jitted = escapement.jit(slow)
    def call():
        with torch.no_grad():   # each thread's own
            jitted(torch.randn(4, 2))
    thread = threading.Thread(target=call)
    thread.start()
    begun.wait()
    assert "__getitem__" in vars(torch.Tensor)
    def action():
        assert "__getitem__" not in vars(torch.Tensor)
        fn = lambda x: x[x.shape[0] // 2] * 2
        same(escapement.jit(fn), fn, 4, 7, 1)
        assert "__getitem__" not in vars(torch.Tensor)
    in_child(action)
    over.set()
    thread.join()
    assert "__getitem__" not in vars(torch.Tensor)
    """)
