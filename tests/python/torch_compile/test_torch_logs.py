"""torch's own logs under our backend: TORCH_LOGS=recompiles, guards and graph_breaks tell what they tell anywhere, with the user's file and
line. The program reads a size exactly, so it is compiled three times and then broken at the read."""

import os
import subprocess
import sys

import pytest

PROGRAM = """import torch


def walks(x):
    y = x * 2
    for _ in range(x.shape[0]):
        y = y + 1
    return y


compiled = torch.compile(walks, backend="escapement")
for length in (3, 4, 5):
    compiled(torch.ones(length, 2))
"""
DEFINED, READ = 4, 6


def logged(tmp_path_factory, names):
    script = tmp_path_factory.mktemp("logs") / "walking.py"
    script.write_text(PROGRAM)
    environment = {**{name: value for name, value in os.environ.items() if name != "TORCH_LOGS"}, **({"TORCH_LOGS": names} if names else {})}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=300, check=True)
    return str(script), done.stderr.splitlines()


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return logged(tmp_path_factory, "recompiles,guards,graph_breaks")


def lines_of(log, artifact):
    return [line.split(f"[__{artifact}]", 1)[1] for line in log[1] if f"[__{artifact}]" in line]


def test_a_recompile_names_the_function_and_the_guard(log):
    lines = lines_of(log, "recompiles")
    assert sum(f"Recompiling function walks in {log[0]}:{DEFINED}" in line for line in lines) == 2
    assert any("size mismatch at index 0. expected 3, actual 4" in line for line in lines)


def test_guards_name_the_users_line(log):
    lines = lines_of(log, "guards")
    assert sum("TREE_GUARD_MANAGER" in line for line in lines) >= 3
    assert any("L['x']" in line and f"walking.py:{READ} in walks" in line for line in lines)


def test_the_budgets_graph_break_names_the_users_line(log):
    lines = lines_of(log, "graph_breaks")
    assert any(f"Graph break in user code at {log[0]}:{READ}" in line for line in lines)
    assert any(f'File "{log[0]}", line {READ}, in walks' in line for line in lines)


def test_nothing_is_logged_unless_asked(tmp_path_factory):
    _, lines = logged(tmp_path_factory, "")
    assert not any(f"[__{name}]" in line for line in lines for name in ("recompiles", "guards", "graph_breaks"))
