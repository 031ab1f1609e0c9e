"""Golden tests: one text file, one or more stages of escapement-opt, one expected text."""
import os
import pathlib

import pytest

from golden import blessed, parse, run_opt

HERE = pathlib.Path(__file__).resolve().parent
FILES = sorted(HERE.rglob("*.txt"))


def test_there_are_golden_files():
    assert len(FILES) >= 25


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HERE)))
def test_golden(path):
    golden = parse(path.read_text())
    status, output, message = run_opt(golden.arguments, golden.text)
    if os.environ.get("ESCAPEMENT_BLESS") == "1":
        path.write_text(blessed(golden, status, output, message))
        return
    if golden.error is not None:
        assert status != 0, f"expected an error, got\n{output}"
        assert golden.error in message
    else:
        assert status == 0, message
        assert output == golden.expected


def test_the_driver_fails_on_a_wrong_expectation():
    golden = parse("# run: escapement-opt --passes=print\ntrace \"x\"\nout\n# expect\ntrace \"y\"\nout\n")
    status, output, _ = run_opt(golden.arguments, golden.text)
    assert status == 0 and output != golden.expected


def test_blessing_writes_what_reads_back():
    golden = parse("# run: escapement-opt --passes=print\ntrace \"x\"\nout\n# expect\nold\n")
    again = parse(blessed(golden, 0, "new\n", ""))
    assert (again.arguments, again.text, again.expected) == (golden.arguments, golden.text, "new\n")
    failed = parse(blessed(golden, 1, "", "error: 1:1: no\n"))
    assert failed.error == "1:1: no" and failed.text == golden.text


def test_an_unknown_stage_gets_a_near_match():
    status, _, message = run_opt(["--passes=verfy"], "")
    assert status == 1 and "did you mean 'verify'" in message
