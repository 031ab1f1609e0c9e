"""The examples of a page of docs/, run."""

import doctest
import pathlib
import re


def run_examples(page):
    """How many there are. What they print otherwise than the page says fails the test."""
    path = pathlib.Path(__file__).resolve().parents[2] / "docs" / page
    blocks = re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)
    test = doctest.DocTestParser().get_doctest("".join(blocks), {}, page, str(path), 0)
    said = []
    failed, tried = doctest.DocTestRunner(verbose=False).run(test, out=said.append, clear_globs=False)
    assert failed == 0, "".join(said)
    return tried
