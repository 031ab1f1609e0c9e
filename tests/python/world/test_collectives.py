"""Operators that talk to other processes, in two processes: each is made once and in its order, and nothing reads a result before it is there.

The work goes on in a thread of its own until `wait_tensor`, so that results are compared at sizes that take a while, too."""
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).with_name("collectives.py")


@pytest.mark.parametrize("mode", ["torch.compile", "jit", "replay"])
def test_results_are_eagers(tmp_path, mode):
    done = subprocess.run([sys.executable, PROGRAMS, mode, tmp_path / "store"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "unwaited collective" not in done.stderr
    assert done.stdout.count("as eagerly") == 2, done.stdout + done.stderr


def test_they_are_compiled(tmp_path):
    """`compiled` of the programs' own: one recording each, no call eagerly."""
    done = subprocess.run([sys.executable, PROGRAMS, "counted", tmp_path / "store"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
