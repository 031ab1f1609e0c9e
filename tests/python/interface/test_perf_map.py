"""Kernels have names in what `perf` reads: /tmp/perf-PID.map, of processes that start with ESCAPEMENT_PERF_MAP=1."""
import os
import re
import subprocess
import sys

import pytest
from harness import core

pytestmark = pytest.mark.skipif(not hasattr(core(), "load_exported"), reason="needs the compiled core")
PROGRAM = """
import os, sys
import torch
import escapement

scores = escapement.jit(lambda x: torch.softmax(x * 2, -1))
total = escapement.jit(lambda x: (x + 1).sum())
with torch.no_grad():
    for rows in (4, 1, 7):
        scores(torch.randn(rows, 8)), total(torch.randn(rows, 8))
path = f"/tmp/perf-{os.getpid()}.map"
if os.path.exists(path):
    print(open(path).read(), end="")
    os.remove(path)
print("--")
print(*(line.split()[0] for line in open("/proc/self/maps") if "x" in line.split()[1]), sep="\\n")
"""
LINE = re.compile(r"([0-9a-f]+) ([0-9a-f]+) escapement::(\w+)")


def run(**environment):
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=os.environ | environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    lines, ranges = done.stdout.split("--\n")
    return lines.splitlines(), [tuple(int(end, 16) for end in line.split("-")) for line in ranges.split()]


def test_each_kernel_stands_in_it_where_its_code_is():
    lines, ranges = run(ESCAPEMENT_PERF_MAP="1")
    found = [LINE.fullmatch(line) for line in lines]
    assert all(found), lines
    names = [match[3] for match in found]
    assert any(name.startswith("k0_") and "div" in name for name in names) and any(name.startswith("k0_") and "sum" in name for name in names), names
    for match in found:
        begin, size = int(match[1], 16), int(match[2], 16)
        assert size > 0 and any(low <= begin and begin + size <= high for low, high in ranges), match[0]


def test_elsewhere_there_is_none():
    assert run(ESCAPEMENT_PERF_MAP="0")[0] == [] == run()[0]
