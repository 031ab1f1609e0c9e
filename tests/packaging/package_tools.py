"""Commands in an environment that does not see the build folder."""
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(*command, **kwargs):
    """The output of a command; its whole output is the message if it fails."""
    done = subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=3000, **kwargs)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout[-6000:]}"
    return done.stdout


def clean_environment():
    """The environment without the build folder's copy of the package, which would hide the installed one."""
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
