"""Makes `escapement` importable and known to torch, as an installed package is.

- Run from a checkout without PYTHONPATH, the package is taken from python/.
- The compiled core is used when it can be imported, else the stand-in fake_c.py, with which only the tests of the Python side
  run. Under ./dev test (which sets ESCAPEMENT_BUILD) a core that cannot be imported is an error: nothing may pass without it.
- A development tree has no installed metadata, so torch cannot find the entry point. A folder with nothing but that metadata is
  put on sys.path: torch then finds the backend the way users' installations do. (./dev build may write the same folder into
  build/python; then nothing happens here.)
"""

import importlib
import importlib.util
import os
import pathlib
import sys
import tempfile
from importlib import metadata

import pytest

HERE = pathlib.Path(__file__).resolve().parent
GROUP = "torch_dynamo_backends"
FILES = {"METADATA": "Metadata-Version: 2.1\nName: escapement\nVersion: 0.1.0\n",
         "entry_points.txt": f"[{GROUP}]\nescapement = escapement.backend:escapement\n"}

if importlib.util.find_spec("escapement") is None:
    sys.path.insert(0, str(HERE.parents[1] / "python"))
try:
    import torch  # noqa: F401  (the core is linked against its libraries)

    core = importlib.import_module("escapement._C")
    core.Region, core.option_table
except (ImportError, AttributeError):
    if os.environ.get("ESCAPEMENT_BUILD"):
        raise
    sys.path.insert(0, str(HERE))
    core = sys.modules["escapement._C"] = importlib.import_module("fake_c")


def metadata_folder():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="escapement-metadata-"))
    (folder / "escapement-0.1.0.dist-info").mkdir()
    for name, text in FILES.items():
        (folder / "escapement-0.1.0.dist-info" / name).write_text(text)
    return str(folder)


if not [point for point in metadata.entry_points(group=GROUP) if point.name == "escapement"]:
    sys.path.append(metadata_folder())


def pytest_configure():
    """pytest listens to every logger that keeps its records to itself, and torch formats what it traces where anybody listens: a tenth of each compile."""
    import torch._logging._internal

    torch._logging._internal.trace_log.propagate = True   # to nobody


# The last two run tools/scalar_eval, and skip by themselves where it is not built.
PYTHON_SIDE = ("test_dynamo_recipe.py", "test_options.py", "test_math_accuracy.py", "test_scalar_exact.py")


def pytest_collection_modifyitems(items):
    for item in items:
        if uses_stand_in() and HERE in item.path.parents and item.path.name not in PYTHON_SIDE:
            item.add_marker(pytest.mark.skip(reason="needs the compiled core: run ./dev build"))


def pytest_report_header():
    return f"escapement core: {'stand-in (fake_c.py)' if uses_stand_in() else core.__file__}"


def uses_stand_in():
    return getattr(core, "IS_FAKE", False)


@pytest.fixture
def fake():
    """The stand-in, for tests of what only it can show."""
    if not uses_stand_in():
        pytest.skip("needs the stand-in core: the real one is loaded")
    return core


@pytest.fixture
def child_env():
    """Environment for a child process that finds the same packages; the child injects the stand-in itself."""
    stand_in = "1" if uses_stand_in() else ""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "USE_STAND_IN": stand_in}


@pytest.fixture
def fresh():
    import torch

    import escapement

    torch._dynamo.reset()
    escapement.reset()
    yield
    torch._dynamo.reset()
