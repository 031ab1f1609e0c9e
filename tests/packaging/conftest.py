"""The wheel, built once for the session, and a virtual environment in which it is installed."""
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from package_tools import ROOT, clean_environment, run

# Compiled as the tests are, in a folder beside their build: where there is ccache it has all of this already. ESCAPEMENT_RELEASE_WHEEL=1 builds what users get.
AS_TESTED = () if os.environ.get("ESCAPEMENT_RELEASE_WHEEL") else ("-Dbuildtype=debugoptimized", "-Db_ndebug=if-release")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    if not (ROOT / "include" / "escapement" / "escapement.h").exists():
        pytest.skip("include/escapement/escapement.h does not exist: there is no library to package")
    out = tmp_path_factory.mktemp("wheel")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # meson and ninja of this environment
    # A named build folder: pip builds once for the metadata and again for the wheel, and so compiles once only.
    # The long option: Debian 12's pip (23.0) has no -C.
    build = Path(tempfile.mkdtemp(prefix="build-wheel-", dir=ROOT))
    try:
        run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", out, ROOT,
            f"--config-settings=build-dir={build}", f"--config-settings=compile-args=-j{os.cpu_count()}",
            *(f"--config-settings=setup-args={argument}" for argument in AS_TESTED), env=clean_environment() | {"PATH": path})
    finally:
        shutil.rmtree(build, ignore_errors=True)
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
