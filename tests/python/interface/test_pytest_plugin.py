"""escapement.pytest_plugin: a package's tests run on its compiled functions, its parts that cannot be imported are left out, and the end tells what ran how."""

import subprocess
import sys

import pytest

PACKAGE = {
    "shapes/__init__.py": "from .areas import area\nfrom . import areas\n",
    "shapes/areas.py": "import torch\n\ndef area(sides):\n    return _product(sides)\n\ndef _product(sides):\n    return sides.prod(-1)\n\ndef halves(sides, n):\n"
                       "    return sides / 2 if n else sides\n",
    "shapes/broken.py": "import no_such_module_anywhere\n",
    "test_shapes.py": "import inspect\nimport shapes\nimport torch\n\ndef test_area():\n    for n in (1, 2, 5):\n"
                      "        assert shapes.area(torch.full((n, 2), 3.0)).tolist() == [9.0] * n\n\ndef test_halves():\n"
                      "    assert shapes.areas.halves(torch.ones(2), 1).tolist() == [0.5, 0.5]\n\ndef test_wrong():\n    assert shapes.area(torch.ones(1, 2)).item() == 2\n",
}


def run(folder, *arguments):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "escapement.pytest_plugin", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@pytest.fixture
def folder(tmp_path):
    for name, text in PACKAGE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    return tmp_path


@pytest.mark.parametrize("way", ["call", "replay"])
def test_the_tests_judge(folder, way):
    done = run(folder, "--escapement=shapes", f"--escapement-way={way}")
    assert "2 passed" in done.stdout and "1 failed" in done.stdout, done.stdout
    assert "2 functions compiled" in done.stdout and "0 recordings" not in done.stdout, done.stdout


def test_without_a_package_nothing_is_compiled(folder):
    done = run(folder)
    assert "2 passed" in done.stdout and "functions compiled" not in done.stdout, done.stdout


def test_a_package_that_is_not_there(folder):
    done = run(folder, "--escapement=no_such_package")
    assert done.returncode == 4 and "--escapement=no_such_package: No module named" in done.stdout, done.stdout
