"""A scripted function hands pieces of its work to threads of torch's own, in which no Python runs. There a size is asked for while this
thread records; the recording is refused, and nothing is left behind of the question: an exception asked for in such a thread outlives it,
and an interpreter with a profiler (a recording has one) waits for it for ever at the next function."""

import subprocess
import sys

import pytest

FORKS = """
import torch, escapement

@torch.jit.script
def piece(x: torch.Tensor, i: int):
    n = x.shape[0]
    y = torch.arange(n) * i
    return (y.to(x.dtype) + x).sum()

@torch.jit.script
def forked(x: torch.Tensor):
    futures = [torch.jit.fork(piece, x, i) for i in range(4)]
    return torch.stack([torch.jit.wait(future) for future in futures]) + x.shape[0]

def after(x):
    return x * 2

def program(x):
    return after(forked(x)) - x.sum()

jitted = escapement.jit(program, mode="MODE")
with torch.no_grad():
    for n in (2, 3, 5, 0, 1, 7, 2):
        x = torch.randn(n)
        torch.testing.assert_close(jitted(x), program(x))
    for n in (4, 6):   # and what comes later is compiled as ever
        plain = escapement.jit(after, mode="call")
        x = torch.randn(n)
        torch.testing.assert_close(plain(x), after(x))
        assert plain.info()["recordings"] == 1, plain.info()
"""


@pytest.mark.parametrize("mode", ["call", "replay"])
def test_sizes_that_come_to_a_thread_without_python(mode, tmp_path):
    program = tmp_path / "forks.py"   # TorchScript reads its source
    program.write_text(FORKS.replace("MODE", mode))
    done = subprocess.run([sys.executable, "-W", "ignore", program], capture_output=True, text=True, timeout=300)   # a failure waits for ever
    assert done.returncode == 0, done.stderr
