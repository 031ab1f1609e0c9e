"""The wheel, built once for the session as a user builds it, and a virtual environment in which it is installed."""
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

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


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    if not (ROOT / "include" / "escapement" / "escapement.h").exists():
        pytest.skip("include/escapement/escapement.h does not exist: there is no library to package")
    out = tmp_path_factory.mktemp("wheel")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # meson and ninja of this environment
    # A named build folder: pip builds once for the metadata and again for the wheel, and so compiles once only.
    run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", out, ROOT,
        f"-Cbuild-dir={out / 'build'}", f"-Ccompile-args=-j{os.cpu_count()}", env=clean_environment() | {"PATH": path})
    (built,) = out.glob("escapement-*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory):
    """(python, package folder) of an environment that holds the wheel. Torch, a gigabyte, is linked in and not copied: in the
    place where pip would put it, since the library looks for it there. All else comes from this environment."""
    env = tmp_path_factory.mktemp("env")
    run(sys.executable, "-m", "venv", "--without-pip", env)
    python = env / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", wheel, env=clean_environment())
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))").strip())
    torch_package = Path(torch.__file__).parent
    (site / "torch").symlink_to(torch_package)
    (site / "others.pth").write_text(f"{torch_package.parent}\n")
    return python, site / "escapement"
