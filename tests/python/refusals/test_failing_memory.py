"""The n-th allocation of a recording, a compile or a call fails, or an interrupt comes at the n-th line: nothing ends the process, the next
calls have eager's results, and the thread is as it was. Each n runs in a forked child; a run takes every so many of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LIBRARY = Path(os.environ.get("ESCAPEMENT_BUILD", ""), "tests", "libfailing_new.so")
PROGRAM = r'''
import collections, ctypes, os, signal, sys
import torch, escapement
from escapement.core import core
torch.set_num_threads(1)
torch.manual_seed(0)
WAY, TIMES = sys.argv[1], int(sys.argv[2])
library = ctypes.CDLL(os.environ["LD_PRELOAD"]) if os.environ.get("LD_PRELOAD") else None

def program(x):
    y = torch.relu(x * 2).softmax(-1) + x.sum(0, keepdim=True)
    found = x.nonzero()
    if y.shape[0] > 3:
        y = y + 1
    w = y.t().clone()
    w.add_(1)
    return y + (y.sum() > 0).item(), found.shape[0], y @ w

def make():
    return escapement.jit(program)

def same(a, b):
    return all(torch.allclose(x, y, 1e-4, 1e-4) if isinstance(x, torch.Tensor) else x == y for x, y in zip(a, b, strict=True))

def interrupt(number):
    def line(frame, event, arg):
        interrupt.seen += 1
        if interrupt.seen == number:
            sys.settrace(None)
            raise KeyboardInterrupt
        return line
    interrupt.seen = 0
    sys.settrace(line)

def arm(number):
    interrupt(number) if library is None else library.arm_failing_new(ctypes.c_long(number))

def disarm():
    if library is not None:
        return library.disarm_failing_new()
    sys.settrace(None)
    return interrupt.seen

x = torch.randn(5, 7)
twice = torch.cat([x, x])
escapement.jit(lambda x: (x.sum(-1) + 1, x @ x.t()))(x)

def attempt(number):
    """What is wrong afterwards, or how many chances there were."""
    compiled = make()
    wants = program(x), program(twice)
    if WAY == "later":
        compiled(x)
    arm(number)
    try:
        got = compiled(x)
        seen = disarm()
    except BaseException:
        got = None
        seen = disarm()
    if got is not None and not same(got, wants[0]):
        return "another result"
    for argument, want in ((x, wants[0]), (twice, wants[1]), (x, wants[0])):
        if not same(compiled(argument), want):
            return "another result afterwards"
    if core().recording() or type((torch.ones(3) + 1).sum().item()) is not float:
        return "the thread still records"
    return f"seen {seen}"

def forked(number):
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            os.write(sink, attempt(number).encode())
        except BaseException as error:
            os.write(sink, f"{type(error).__name__}: {error}".encode()[:500])
        os._exit(0)
    os.close(sink)
    text = os.read(source, 1000).decode()
    os.close(source)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return text if status == 0 else f"ended by signal {-status}"

chances = int(forked(1 << 50).split()[1])
found = collections.Counter()
for i in range(TIMES):
    number = 1 + i * chances // TIMES
    text = forked(number)
    if not text.startswith("seen"):
        print(number, text)
print("done", chances)
'''


def run(way, times, **environment):
    ran = subprocess.run([sys.executable, "-c", PROGRAM, way, str(times)], capture_output=True, text=True, env={**os.environ, **environment})
    lines = ran.stdout.splitlines()
    assert ran.returncode == 0 and lines[-1].startswith("done") and int(lines[-1].split()[1]) > 50, ran.stderr[-2000:]
    assert lines[:-1] == []


@pytest.mark.parametrize("way", ("first", "later"))
def test_allocations_that_fail(way):
    if not LIBRARY.is_file():
        pytest.skip("needs the build folder")
    run(way, 12, LD_PRELOAD=str(LIBRARY))


def test_interrupts_at_every_line():
    run("first", 20)
