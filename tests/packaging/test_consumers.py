"""A C++ program finds the installed package through pkg-config and through CMake, compiles, links and runs."""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from package_tools import clean_environment, run

pytestmark = pytest.mark.slow

CONSUMER = Path(__file__).resolve().parent / "consumer"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "cpp"
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


def test_cmake_finds_the_package_of_the_environment_without_hints(installed, tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    bin_folder = Path(installed[0]).parent
    run("cmake", "-S", CONSUMER, "-B", tmp_path, env=clean_environment() | {"PATH": f"{bin_folder}:{os.environ['PATH']}"})
    run("cmake", "--build", tmp_path)
    assert GREETING.fullmatch(run(tmp_path / "consumer", env=clean_environment()))


def test_without_the_package_cmake_says_what_to_do(installed, tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    share = tmp_path / "prefix" / "share" / "cmake" / "escapement"
    shutil.copytree(Path(installed[0]).parents[1] / "share" / "cmake" / "escapement", share)
    done = subprocess.run(["cmake", "-S", CONSUMER, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={tmp_path / 'prefix'}"],
                          capture_output=True, text=True, env=clean_environment())
    assert done.returncode != 0 and "python -m escapement config" in done.stderr


def check_example(program):
    lines = run(program, env=clean_environment()).splitlines()
    assert lines[:4] == ["4.000", "1.000", "7.000", "500.000"] and lines[-1] == "recordings: 1"
    assert len(lines) == 6 and re.search(r"s0 <= 1000 at \S*main\.cpp:9$", lines[4]), lines
    assert not re.search(r"lib\w*python", run("ldd", program, env=clean_environment()))


def test_the_example_by_pkg_config(installed, tmp_path):
    pkg_config = Path(installed[1], "lib", "pkgconfig")
    flags = run("pkg-config", "--cflags", "--libs", "escapement",
                env=clean_environment() | {"PKG_CONFIG_PATH": str(pkg_config)}).split()
    run("g++", "-std=c++20", "-g", "-O2", "-Wall", "-Werror", EXAMPLE / "main.cpp", "-o", tmp_path / "example", *flags)
    check_example(tmp_path / "example")


def test_the_example_by_cmake(installed, tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    run("cmake", "-S", EXAMPLE, "-B", tmp_path, "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
        f"-DCMAKE_PREFIX_PATH={installed[1] / 'lib' / 'cmake'}", env=clean_environment())
    run("cmake", "--build", tmp_path)
    check_example(tmp_path / "example")


def test_without_debug_information_an_escape_has_its_function(installed, tmp_path):
    flags = run(installed[0], "-m", "escapement", "config", "--cflags", "--libs", env=clean_environment()).split()
    run("g++", "-std=c++20", "-O2", EXAMPLE / "main.cpp", "-o", tmp_path / "example", *flags)
    (line,) = [line for line in run(tmp_path / "example", env=clean_environment()).splitlines() if " at " in line]
    assert re.search(r" in example(\+0x[0-9a-f]+)?$", line), line
