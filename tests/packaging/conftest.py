"""The wheel, built once for the session, and a virtual environment in which it is installed."""
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from package_tools import ROOT, clean_environment, run

# Compiled as the tests are: where there is ccache it has all of this already. ESCAPEMENT_RELEASE_WHEEL=1 builds what users get.
AS_TESTED = "" if os.environ.get("ESCAPEMENT_RELEASE_WHEEL") else "-Dbuildtype=debugoptimized -Db_ndebug=if-release"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """What `./dev wheel` makes, in a build folder beside the tests' own, as ccache wants it."""
    out = tmp_path_factory.mktemp("wheel")
    build = tempfile.mkdtemp(prefix="build-packaging-", dir=ROOT)
    settings = {"ESCAPEMENT_BUILD": build, "ESCAPEMENT_VENV": sys.prefix, "ESCAPEMENT_SKIP_SYSTEM": "1", "ESCAPEMENT_SETUP": AS_TESTED}
    try:
        run(ROOT / "dev", "wheel", out, env=clean_environment() | settings)
    finally:
        for made in (build, f"{build}-wheel"):
            shutil.rmtree(made, ignore_errors=True)
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
