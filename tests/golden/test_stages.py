"""The table of stages (src/support/stages.def): each has a golden file, is offered by escapement-opt and known to `dump`; those whose text
depends on the machine are looked at for what must be in it."""
import pathlib
import re

import pytest

from golden import ROOT, parse, run_opt

HERE = pathlib.Path(__file__).resolve().parent
STAGES = re.findall(r'^STAGE\((\w+), +(\w+), +[\w.]+, +"', (ROOT / "src/support/stages.def").read_text(), re.MULTILINE)
OF_THE_MACHINE = {"ir": "define void @k0_exp", "optimised": "define", "assembly": "retq", "device_ir": "define void @k0_exp", "ptx": ".visible .entry k0_exp"}

EXP = """trace "exp"
dims
  s0 = arg0.size[0] hint 3
in
  %0: f32[s0] = "x"
do
  %1: f32[s0] #1 = exp %0
out %1
"""

ZERO_BY_ZERO = """trace "zero by zero"
dims
  s0 = arg0.size[0] hint 3
in
  %0: i32[s0] = "x"
do
  %1: i32[s0] #1 = sub %0, %0
  %2: f32[s0] #2 = cast %1
  %3: f32[s0] #3 = div %2, %2
  %4: f32[s0] #4 = fmod %2, value=0.0
out %3, %4
"""


def passes(path):
    arguments = parse(path.read_text()).arguments
    return {name for a in arguments if a.startswith("--passes=") for name in a.removeprefix("--passes=").split(",")}


def test_the_table_is_read():
    assert ("dce", "trace") in STAGES and ("plan", "plan") in STAGES and ("ir", "text") in STAGES


@pytest.mark.parametrize("name", [name for name, _ in STAGES if name not in OF_THE_MACHINE])
def test_each_has_a_golden_file(name):
    assert [path for path in HERE.rglob("*.txt") if name in passes(path)]


@pytest.mark.parametrize("name, leaves", STAGES)
def test_each_runs_on_text(name, leaves):
    before = "plan," if leaves == "text" else ""
    status, output, message = run_opt([f"--passes={before}{name}"], EXP)
    if "without LLVM" in message:
        pytest.skip(message)
    assert status == 0, message
    assert OF_THE_MACHINE.get(name, "exp") in output


def test_what_is_always_zero_is_not_left_to_the_selection_of_instructions():
    """LLVM's makes 0 of 0 / 0 behind a choice, for some processors."""
    status, ir, message = run_opt(["--passes=plan,ir"], ZERO_BY_ZERO)
    if "without LLVM" in message:
        pytest.skip(message)
    assert status == 0, message
    stored = re.findall(r"store (?:<\d+ x float>|float) (.*), ptr", ir)
    assert stored and all("0x7FF8000000000000" in value for value in stored)


@pytest.mark.parametrize("name", [name for name, leaves in STAGES if leaves == "text"])
def test_what_shows_a_plan_says_so(name):
    status, _, message = run_opt([f"--passes={name}"], EXP)
    assert status == 1 and f"plan,{name}" in message


def test_a_stage_of_traces_refuses_a_plan():
    status, _, message = run_opt(["--passes=plan,dce"], EXP)
    assert status == 1 and "takes a trace" in message
