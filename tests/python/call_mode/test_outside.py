"""Programs that reach outside of themselves: what they do there they do at every call, and what they read there is read at every call."""

import importlib
import os
import subprocess
import sys
import time

import pytest
import torch

import escapement

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]
CALLS = 5


def write(path, text):
    path.write_text(text)
    return path


def read_number(x, path):
    return x * float(open(path).read())


def append(x, path):
    with open(path, "a") as file:
        file.write(f"{x.shape[0]}\n")
    return x + 1


def run_process(x, path):
    subprocess.run([sys.executable, "-S", "-c", f"open({str(path)!r}, 'a').write('3\\n')"], check=True)
    return x + 1


def remove(x, path):
    os.remove(path)
    return x + 1


def set_variable(x, path):
    os.environ["ESCAPEMENT_TEST_OUTSIDE"] = str(time.perf_counter())
    return x + 1


def test_a_file_is_read_at_every_call(tmp_path):
    compiled = escapement.jit(read_number)
    for number in range(CALLS):
        path = write(tmp_path / "number", str(number))
        assert compiled(torch.ones(3), str(path)).tolist() == [number] * 3


def test_what_a_loader_returns_is_read_at_every_call(tmp_path):
    compiled = escapement.jit(lambda path: torch.load(path) * 2)
    for number in range(CALLS):
        torch.save(torch.full((2,), float(number)), tmp_path / "saved")
        assert compiled(str(tmp_path / "saved")).tolist() == [2 * number] * 2


@pytest.mark.parametrize("function", [append, run_process])
def test_what_is_written_is_written_at_every_call(function, tmp_path):
    compiled, path = escapement.jit(function), tmp_path / "log"
    for _ in range(CALLS):
        compiled(torch.ones(3), str(path))
    assert path.read_text() == "3\n" * CALLS


def test_what_is_removed_is_removed_at_every_call(tmp_path):
    compiled = escapement.jit(remove)
    for _ in range(CALLS):
        path = write(tmp_path / "there", "")
        compiled(torch.ones(3), str(path))
        assert not path.exists()


def test_variables_are_set_at_every_call(tmp_path):
    compiled, values = escapement.jit(set_variable), set()
    for _ in range(CALLS):
        compiled(torch.ones(3), str(tmp_path))
        values.add(os.environ["ESCAPEMENT_TEST_OUTSIDE"])
    assert len(values) == CALLS


def test_it_is_counted(tmp_path):
    compiled, path = escapement.jit(append), tmp_path / "log"
    for _ in range(CALLS):
        compiled(torch.ones(3), str(path))
    assert "state_changed" in compiled.info()["eager"]


def test_importing_a_module_is_not_reaching_outside(tmp_path, monkeypatch):
    write(tmp_path / "imported_while_recording.py", "FACTOR = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    compiled = escapement.jit(lambda x: x * importlib.import_module("imported_while_recording").FACTOR)
    for _ in range(CALLS):
        assert compiled(torch.ones(2)).tolist() == [3, 3]
    assert compiled.info()["recordings"] == 1 and not compiled.info()["eager"]
