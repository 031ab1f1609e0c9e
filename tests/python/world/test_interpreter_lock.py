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


def test_threads_share_programs_while_the_lock_is_free():
    layers = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)).eval()

    def program(x, scales):
        y = layers(x) * scales["by"]
        return {"y": y, "sums": [y.sum(0), torch.softmax(y, -1)]}, x.shape[0]

    torch.compiler.reset()
    programs = [escapement.jit(program), escapement.jit(program, mode="replay"), torch.compile(program, backend="escapement")]
    failures = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for i in range(24):
            x, scales = torch.randn([1, 3, 500, 1500][i % 4], 64, generator=generator), {"by": torch.randn(64, generator=generator)}
            try:
                with torch.no_grad():
                    torch.testing.assert_close(programs[(i + seed) % 3](x, scales), program(x, scales), rtol=1e-4, atol=1e-4)
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
