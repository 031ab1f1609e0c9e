"""The planted bugs (tests/planted) are about the code as it is: each text is still there, once, and changes something."""
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/planted"))

from bugs import BUGS   # noqa: E402


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_its_text_occurs_once(bug):
    text = (ROOT / bug.file).read_text()
    assert text.count(bug.old) == 1, f"{bug.file}: say what the text is now"
    assert bug.new != bug.old


def test_the_list():
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 40
    for bug in BUGS:
        for name in bug.python:
            assert (ROOT / "tests/python" / name).is_file(), name
