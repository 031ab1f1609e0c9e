"""A C++ program finds the installed package through pkg-config and through CMake, compiles, links and runs."""
import re
import shutil
from pathlib import Path

import pytest

from package_tools import clean_environment, run

pytestmark = pytest.mark.slow

CONSUMER = Path(__file__).resolve().parent / "consumer"
GREETING = re.compile(r"consumer: escapement \d+\.\d+\.\d+\n")


def test_pkg_config(installed, tmp_path):
    pkg_config = Path(installed[1], "lib", "pkgconfig")
    flags = run("pkg-config", "--cflags", "--libs", "escapement",
                env=clean_environment() | {"PKG_CONFIG_PATH": str(pkg_config)}).split()
    run("g++", "-std=c++20", "-Wall", "-Werror", CONSUMER / "consumer.cpp", "-o", tmp_path / "consumer", *flags)
    assert GREETING.fullmatch(run(tmp_path / "consumer", env=clean_environment()))


def test_config_of_the_package(installed, tmp_path):
    flags = run(installed[0], "-m", "escapement", "config", "--cflags", "--libs", env=clean_environment()).split()
    run("g++", "-Wall", "-Werror", CONSUMER / "consumer.cpp", "-o", tmp_path / "consumer", *flags)
    assert GREETING.fullmatch(run(tmp_path / "consumer", env=clean_environment()))


def test_cmake(installed, tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    run("cmake", "-S", CONSUMER, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={installed[1] / 'lib' / 'cmake'}",
        env=clean_environment())
    run("cmake", "--build", tmp_path)
    assert GREETING.fullmatch(run(tmp_path / "consumer", env=clean_environment()))
