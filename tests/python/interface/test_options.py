"""Options: names, types, near matches, precedence, and what a user sees when one is wrong."""

import functools
import subprocess
import sys

import pytest
import torch

import escapement
from escapement import option_values
from escapement.errors import OptionError


NO_CORE = pytest.mark.skipif(not hasattr(escapement.core.core(), "Entrance"), reason="needs the compiled core")


def double(x):
    return x * 2


def test_defaults_come_from_the_table():
    rows = option_values.table()
    assert option_values.resolve() == {name: row.default for name, row in rows.items()}
    assert "strict" in rows and rows["strict"].type == "bool"


def test_unknown_name_is_an_error_with_a_near_match():
    with pytest.raises(OptionError, match="unknown option: 'stict'; did you mean 'strict'"):
        option_values.resolve(given={"stict": True})


def test_a_name_like_nothing_has_no_near_match():
    with pytest.raises(OptionError) as error:
        option_values.resolve(given={"qqqqqqq": True})
    assert "did you mean" not in str(error.value)


@pytest.mark.parametrize("value", [1, "yes", None, 0.0])
def test_a_bool_takes_only_a_bool(value):
    with pytest.raises(OptionError, match="'strict' is of type bool"):
        option_values.resolve(given={"strict": value})


def test_types_of_every_row():
    wrong = {"bool": "x", "int": True, "float": "x", "str": 3}
    for name, row in option_values.table().items():
        with pytest.raises(OptionError):
            option_values.resolve(given={name: wrong[row.type]})


def test_an_int_may_stand_for_a_float(fake):
    assert option_values.resolve(given={"min_parallel_us": 3})["min_parallel_us"] == 3.0


def test_choices(fake):
    assert option_values.resolve(given={"compile": "background"})["compile"] == "background"
    with pytest.raises(OptionError, match="one of background, block.*did you mean 'block'"):
        option_values.resolve(given={"compile": "blok"})


@pytest.mark.parametrize("mode", ["default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune"])
def test_modes_of_torch_are_accepted(mode):
    assert option_values.resolve(mode=mode) == option_values.resolve()


def test_other_modes_are_not():
    with pytest.raises(OptionError, match="did you mean 'max-autotune'"):
        option_values.resolve(mode="max-autotunes")


def test_environment_and_precedence(monkeypatch):
    monkeypatch.setenv("ESCAPEMENT_OPTIONS", "strict")
    assert option_values.resolve()["strict"] is True
    assert escapement.options()["strict"].value is True
    assert option_values.resolve(given={"strict": False})["strict"] is False
    monkeypatch.setenv("ESCAPEMENT_OPTIONS", "strict = off ,")
    assert option_values.resolve()["strict"] is False


def test_every_option_has_its_own_variable(monkeypatch):
    monkeypatch.setenv("ESCAPEMENT_STRICT", "1")
    monkeypatch.setenv("ESCAPEMENT_THREADS", "3")
    assert (option_values.resolve()["strict"], option_values.resolve()["threads"]) == (True, 3)
    monkeypatch.setenv("ESCAPEMENT_OPTIONS", "threads=4")
    assert option_values.resolve()["threads"] == 4


@pytest.mark.parametrize("text, message", [("stric=1", "did you mean 'strict'"), ("strict=maybe", "is a bool")])
def test_environment_errors(monkeypatch, text, message):
    monkeypatch.setenv("ESCAPEMENT_OPTIONS", text)
    with pytest.raises(OptionError, match=message):
        option_values.resolve()


@NO_CORE
@pytest.mark.parametrize("value", [-1, 2**31, 2**63, 2**70])
def test_an_integer_out_of_range_is_refused_when_the_function_is_made(value):
    for make in (escapement.jit, functools.partial(escapement.jit, mode="replay"), escapement.compile):
        with pytest.raises(OptionError, match=f"'threads' is an integer from 0 to 2147483647; got {value}"):
            make(double, threads=value)


@NO_CORE
def test_the_largest_integer_is_the_cores_too():
    assert torch.equal(escapement.jit(double, hot_launches=option_values.LARGEST)(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(RuntimeError, match="wants int"):
        escapement.core.core().Region(double, [("tensor", [])], {"hot_launches": option_values.LARGEST + 1}, "double", False)


@NO_CORE
@pytest.mark.parametrize("variable, text, message", [
    ("ESCAPEMENT_THREADS", "-1", "integer from 0 to"), ("ESCAPEMENT_THREADS", "four", "of type int; 'four' is not"),
    ("ESCAPEMENT_DISABLE", "maybe", "is a bool"), ("ESCAPEMENT_STRICT", "tru", "is none of 1, true,.*did you mean 'true'"),
    ("ESCAPEMENT_OPTIONS", "threads=-3", "integer from 0 to"),
    ("ESCAPEMENT_COMPILE", "blok", "did you mean 'block'"), ("ESCAPEMENT_DUMP", "recrod", "did you mean 'record'")])
def test_a_mistake_in_the_environment_names_the_variable(variable, text, message, monkeypatch, fresh):
    compiled = torch.compile(double, backend="escapement")
    monkeypatch.setenv(variable, text)
    for make in (escapement.jit, functools.partial(escapement.jit, mode="replay"), escapement.compile):
        with pytest.raises(OptionError, match=f"{message}.*from the environment: {variable}"):
            make(double)
    with pytest.raises(Exception, match=f"OptionError.*{message}.*from the environment: {variable}"):
        compiled(torch.ones(3))


@NO_CORE
def test_disable_is_understood_at_each_call(monkeypatch):
    jitted = escapement.jit(double)
    monkeypatch.setenv("ESCAPEMENT_DISABLE", "maybe")
    with pytest.raises(OptionError, match="ESCAPEMENT_DISABLE"):
        jitted(torch.ones(3))


@NO_CORE
@pytest.mark.parametrize("make", [escapement.compile, escapement.explain, escapement.jit])
def test_what_is_no_function_is_refused(make):
    with pytest.raises(TypeError, match="takes a function or module.*not int"):
        make(3)


def test_a_mode_that_is_no_text():
    with pytest.raises(OptionError, match=r"mode=\[\] is not known"):
        escapement.compile(double, mode=[])


def test_errors_are_exported():
    assert {name for name in vars(escapement.errors) if name.endswith("Error")} <= set(escapement.__all__)


def test_the_user_sees_the_near_match_through_torch_compile(fresh):
    compiled = torch.compile(double, backend="escapement", options={"stict": True})
    with pytest.raises(Exception, match="did you mean 'strict'"):
        compiled(torch.ones(3))


def test_mode_reaches_the_backend(fresh):
    assert torch.equal(torch.compile(double, backend="escapement", mode="max-autotune")(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(Exception, match="mode='fastest' is not known to escapement"):
        torch.compile(double, backend="escapement", mode="fastest")(torch.ones(3))


def test_disable(fresh, monkeypatch):
    monkeypatch.setenv("ESCAPEMENT_DISABLE", "1")
    assert torch.equal(torch.compile(double, backend="escapement")(torch.ones(3)), torch.full((3,), 2.0))
    assert escapement.stats()["dynamo"]["fallbacks"] == {"disabled": 1}


def test_the_option_disable_does_the_same(fresh):
    compiled = torch.compile(double, backend="escapement", options={"disable": True})
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 2.0))
    assert escapement.stats()["dynamo"]["fallbacks"] == {"disabled": 1}


def test_import_is_light(child_env):
    """The package itself loads neither torch nor the core, so it costs a few milliseconds."""
    code = "import sys, time; t = time.perf_counter(); import escapement; t = time.perf_counter() - t\n" \
           "assert 'torch' not in sys.modules and 'escapement._C' not in sys.modules; assert t < 0.05, t; escapement.__version__"
    subprocess.run([sys.executable, "-c", code], check=True, env=child_env)


def test_options_command(capsys):
    from escapement.__main__ import main

    assert main(["options"]) == 0
    assert "strict: bool" in capsys.readouterr().out
    assert main(["optoins"]) == 2


# --- dump

@NO_CORE
def test_an_unknown_stage_is_refused_with_a_near_match():
    with pytest.raises(OptionError, match="'dump' does not know 'pln'; did you mean 'plan'"):
        escapement.jit(double, dump="record,pln")(torch.ones(2))


@NO_CORE
@pytest.mark.parametrize("stage, shown", [("record", "trace \"double\""), ("plan", "launch k0_mul"), ("ir", "define void @k0_mul"), ("assembly", "k0_mul:")])
def test_a_stage_is_shown(stage, shown, capfd):
    with torch.no_grad():
        escapement.jit(double, dump=stage)(torch.ones(2))
    said = capfd.readouterr().err
    assert f"--- {stage}: " in said and shown in said


@NO_CORE
@pytest.mark.parametrize("stage, option", [("cat", "fuse"), ("epilogue", "pack_weights")])
def test_an_option_leaves_its_stage_out(stage, option, capfd):
    with torch.no_grad():
        for wanted in (True, False):
            escapement.jit(double, dump=f"dce,{stage},plan", **{option: wanted})(torch.ones(2))
            said = capfd.readouterr().err
            assert "--- dce: " in said and "--- plan: " in said and (f"--- {stage}: " in said) == wanted
