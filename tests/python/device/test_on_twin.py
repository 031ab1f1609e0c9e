"""Programs on a device, without one: torch's PrivateUse1 slot over the twin driver (twin.py). A process for each file, as the slot cannot be freed."""

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
FILES = sorted(f.name for f in HERE.glob("on_twin_*.py"))
BUILT = os.environ.get("ESCAPEMENT_BUILD")


@pytest.mark.skipif(not BUILT, reason="the twin device is part of a build: ESCAPEMENT_BUILD names none")
@pytest.mark.parametrize("name", FILES)
def test_on_the_twin(name):
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-o", f"python_files={name}", str(HERE / name)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment, cwd=HERE.parents[2])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout, done.stdout[-2000:]
