"""A C++ program that uses the library has no Python in its process, and reads no Python library."""

import os
import re
import subprocess
from pathlib import Path

import pytest

PROGRAMS = ("embedding", "test_torch")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_linked_with_no_python(name):
    program = Path(os.environ.get("ESCAPEMENT_BUILD", ""), "tests", name)
    if not program.is_file():
        pytest.skip("needs the build folder")
    libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    assert "libescapement" in libraries and "libtorch_cpu" in libraries
    assert not re.search(r"lib\w*python", libraries)   # a virtual environment's path may name python
