"""Kernels for sizes that come often: made in the background after `hot_launches`, bit-equal to the general ones, never a recording, a
version or a specialised dim."""

import subprocess
import sys
import time

import pytest
import torch
import torch.nn.functional as F
from harness import bits, core, region, seeded

# Few enough rows that the vector runs along a row: there the length matters most.
PROGRAMS = {
    "softmax": lambda x: x.softmax(-1), "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]), "argmax": lambda x: x.argmax(-1),
    "transposed": lambda x: x.t().contiguous().t().softmax(-1),
    "logsumexp": lambda x: x.logsumexp(-1) * 2}
LENGTHS = (1, 3, 7, 8, 10, 31, 64)


def tuned():
    return core().stats().get("kernels_tuned", 0)


def wait_for_tuning(made, x, before):
    """Calls until the background thread has made code: it has all the time it needs."""
    for _ in range(3000):
        for _ in range(50):
            made(x)
        if tuned() > before:
            return
        time.sleep(0.01)
    raise AssertionError("no code was made for the sizes")


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_same_bits_and_nothing_counted(name):
    function, generator = PROGRAMS[name], seeded(name)
    made, plain = region(lambda x: [function(x)], 1, hot_launches=70), region(lambda x: [function(x)], 1, hot_launches=0)
    made(torch.randn(5, 2)), plain(torch.randn(5, 2))  # the recording call is eager's
    for n in LENGTHS:
        made(torch.randn(5, n, generator=generator))
        before, counted = tuned(), core().stats()
        wait_for_tuning(made, torch.randn(5, n, generator=generator), before)
        for rows in (5, 1, 0, 2, 61, 5, 300):
            x = torch.randn(rows, n, generator=generator) * 10
            for values in (x, x.fill_diagonal_(float("nan")), torch.zeros_like(x), torch.full_like(x, -float("inf"))):
                ours, general = made(values)[0], plain(values)[0]
                assert torch.equal(bits(ours), bits(general)), (n, rows)
        now = core().stats()
        assert now["launches"] > counted["launches"]
        assert now["recordings"] - counted["recordings"] <= 1 and now.get("specialisations") == counted.get("specialisations")
    info = made.info()
    assert len(info["versions"]) == 1 and not info["fallbacks"]


def test_sizes_that_alternate_become_hot_too():
    made = region(lambda x: [x.softmax(-1) + 1], 1, hot_launches=100)
    tensors = [torch.randn(4, n) for n in (9, 11)]
    made(tensors[0])  # the recording call is eager's
    expected = [made(x)[0] for x in tensors]
    before = tuned()
    for _ in range(3000):
        for x, y in zip(tensors, expected):
            assert torch.equal(made(x)[0], y)
        if tuned() >= before + 2:
            break
        time.sleep(0.001)
    assert tuned() >= before + 2
    for x, y in zip(tensors, expected):
        assert torch.equal(made(x)[0], y)


def test_rare_sizes_and_long_rows_are_left_alone():
    before = tuned()
    made = region(lambda x: [x.softmax(-1) * 3], 1, hot_launches=64)
    for n in range(1, 40):
        made(torch.randn(4, n))
    for _ in range(200):
        made(torch.randn(4, 500))
    off = region(lambda x: [x.softmax(-1) * 5], 1, hot_launches=0)
    for _ in range(500):
        off(torch.randn(4, 10))
    time.sleep(0.2)
    assert tuned() == before


SCRIPT = """
import os, time, torch
torch.set_num_threads(1)  # torch's own threads do not survive a fork
from escapement import _C
made = _C.Region(lambda x: [x.softmax(-1) - 1], [("tensor", [])], {"hot_launches": 64}, "hot")
x = torch.randn(4, 12)
made(x)  # the recording call is eager's
expected = made(x)[0]
for _ in range(200):
    made(x)
if os.fork() == 0:
    other = _C.Region(lambda x: [x.softmax(-1) - 2], [("tensor", [])], {"hot_launches": 64}, "hot")
    _C.reset()
    for _ in range(6000):
        if _C.stats().get("kernels_tuned", 0) > 0:
            break
        for _ in range(50):
            if not torch.equal(made(x)[0], expected) or other(x) is None:
                os._exit(2)
        time.sleep(0.01)
    else:
        os._exit(1)
    os._exit(0)
_, status = os.wait()
for _ in range(200):
    made(x)
raise SystemExit(os.waitstatus_to_exitcode(status))
"""


def test_a_forked_child_and_an_early_exit():
    """The child has no thread but its own, and makes one; the parent ends while there may be work under way."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
