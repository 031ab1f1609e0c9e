"""Other threads of Python's go on while a call works, as they do while an operator of torch's does."""
import threading
import time

import pytest
import torch

import escapement


def pointwise(x):
    for _ in range(8):
        x = torch.sin(x) * 1.01
    return x


def products(x):
    for _ in range(3):
        x = torch.tanh(x @ x)
    return x


PROGRAMS = {"a kernel": (pointwise, 3_000_000), "library calls": (products, (900, 900))}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("mode", ["torch.compile", "jit"])
def test_another_thread_runs_during_a_call(name, mode):
    function, size = PROGRAMS[name]
    torch.compiler.reset()
    x = torch.randn(size)
    if mode == "torch.compile":
        compiled = torch.compile(function, backend="escapement")
    else:
        compiled = escapement.jit(function)
    steps, stop = [0], threading.Event()

    def go_on():
        while not stop.is_set():
            steps[0] += 1
            time.sleep(0.0005)

    thread = threading.Thread(target=go_on)
    with torch.no_grad():
        compiled(x)
        compiled(x)
        thread.start()
        seen = []
        for _ in range(10):
            before = steps[0]
            compiled(x)
            seen.append(steps[0] - before)
    stop.set()
    thread.join()
    assert max(seen) > 1, seen    # one may come to pass between two bytecodes
