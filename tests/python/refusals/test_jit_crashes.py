"""No program ends the process, raises what eager does not raise, or keeps quiet where eager raises (crash_programs.py has the rows). Each
group runs in a process of its own, so that one that dies is a failed test."""

import pathlib
import subprocess
import sys

import pytest

PROGRAMS = pathlib.Path(__file__).with_name("crash_programs.py")


@pytest.mark.parametrize("group", ("born", "other", "in_place", "empty", "limits"))
def test_as_eager(group):
    ran = subprocess.run([sys.executable, PROGRAMS, group], capture_output=True, text=True)
    lines = ran.stdout.splitlines()
    assert ran.returncode == 0 and lines[-1].startswith("done"), (ran.returncode, lines[-1:], ran.stderr[-500:])
    assert [line for line in lines if line.startswith("differs")] == []
