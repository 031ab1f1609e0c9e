"""python -m escapement: each command in a process of its own, and the flags for C++ programs against both layouts of the package."""

import subprocess
import sys

import pytest

from escapement import __main__ as command_line


def run(*arguments):
    done = subprocess.run([sys.executable, "-m", "escapement", *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_doctor_finds_nothing_wrong():
    status, output, errors = run("doctor")
    assert status == 0 and "FAIL" not in output, output + errors
    assert "1 compile for 3 sizes" in output and "one compile serves all sizes" in output


def test_options_are_listed_with_what_is_in_force(monkeypatch):
    monkeypatch.setenv("ESCAPEMENT_STRICT", "1")
    status, output, _ = run("options")
    assert status == 0 and "strict: bool, default False, now True" in output and "max_recordings: int" in output


def test_ops_are_listed():
    status, output, _ = run("ops")
    assert status == 0 and "layer_norm  composite  stable  layer_norm" in output.splitlines()


@pytest.mark.parametrize("arguments", [(), ("docter",)])
def test_anything_else_shows_the_commands(arguments):
    status, _, errors = run(*arguments)
    assert status == 2 and "doctor | options | ops | config" in errors


def test_an_unknown_command_is_named_and_help_is_no_error():
    status, _, errors = run("docter")
    assert status == 2 and "unknown command: 'docter'; did you mean 'doctor'?" in errors
    status, output, errors = run("--help")
    assert status == 0 and "doctor | options | ops | config" in output and not errors


def test_doctor_says_that_everything_is_switched_off(monkeypatch):
    monkeypatch.setenv("ESCAPEMENT_DISABLE", "1")
    status, output, _ = run("doctor")
    assert status == 1 and "ESCAPEMENT_DISABLE=1 is set" in output


def test_an_unknown_flag_is_named():
    status, _, errors = run("config", "--clfags")
    assert status == 2 and "--clfags" in errors and "--cflags" in errors


def test_the_library_of_an_installed_package(tmp_path, monkeypatch):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libescapement.so").touch()
    monkeypatch.setattr(command_line, "PACKAGE", str(tmp_path))
    assert f"-L{tmp_path}/lib -l:libescapement.so " in command_line.build_flags()["--libs"]


def test_the_library_of_a_build_tree(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command_line, "PACKAGE", str(tmp_path))
    assert f"-L{tmp_path} -l:libescapement.so.0 " in command_line.build_flags()["--libs"]
    assert command_line.main(["config", "--cmakedir"]) == 1 and "only an installed package" in capsys.readouterr().err
