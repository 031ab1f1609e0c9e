"""An interrupt that comes while Python is told to look at the calls of C functions, or no longer to: the next recording went round in a circle for ever."""
import subprocess
import sys

import pytest

PROGRAM = """
import sys, torch, escapement

armed = {times}

def hook(event, arguments):
    global armed
    if event == "sys.setprofile" and armed > 0 and counted():
        armed -= 1
        raise KeyboardInterrupt

seen = 0

def counted():
    global seen
    seen += 1
    return seen > {after}

sys.addaudithook(hook)
for number in range(4):
    function = escapement.jit(lambda x: x * 2 + number)
    for rows in (2, 3, 2):
        assert torch.equal(function(torch.ones(rows)), torch.full((rows,), 2.0 + number))
assert sys.getprofile() is None
calls = []
sys.setprofile(lambda frame, what, argument: calls.append(what))   # a profiler of the program's own goes on
escapement.jit(lambda x: x + len("ab"))(torch.ones(2))
sys.setprofile(None)
assert "c_call" in calls
print("done")
"""


@pytest.mark.parametrize("after", [0, 1, 2, 3])
@pytest.mark.parametrize("times", [1, 3, 9])
def test_the_next_recording_ends(times, after):
    ran = subprocess.run([sys.executable, "-c", PROGRAM.format(times=times, after=after)], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0 and ran.stdout == "done\n", ran.stderr[-2000:]
