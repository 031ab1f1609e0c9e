"""The examples of docs/ir.md are what the page says they are."""
import re

import pytest

from golden import ROOT, run_opt

PAGE = (ROOT / "docs" / "ir.md").read_text()
BLOCK = re.compile(r"^```(trace|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BECOMES = re.compile(r"\s*becomes, by `([^`]+)`,\s*")


def examples():
    """(first line, text, stages or None, expected or None) of every trace that is not itself the result of one."""
    blocks = list(BLOCK.finditer(PAGE))
    result, is_result = [], False
    for block, following in zip(blocks, [*blocks[1:], None]):
        joined = BECOMES.fullmatch(PAGE, block.end(), following.start()) if following else None
        if block[1] == "trace" and not is_result:
            result.append((block[2].splitlines()[0], block[2], joined and joined[1], joined and following[2]))
        is_result = joined is not None
    return result


EXAMPLES = examples()


def test_the_page_has_examples():
    assert len(EXAMPLES) >= 6 and sum(stages is not None for _, _, stages, _ in EXAMPLES) >= 3


@pytest.mark.parametrize("text,stages,expected", [rest for _, *rest in EXAMPLES], ids=[title for title, *_ in EXAMPLES])
def test_example(text, stages, expected):
    status, output, message = run_opt(["--passes=round-trip,print"], text)
    assert status == 0, message
    if stages is None:
        assert output == text, "the page shows what the printer would write"
    if stages is None or not stages.startswith("rebuild"):
        status, _, message = run_opt(["--passes=verify"], text)
        assert status == 0, message
    if stages:
        status, output, message = run_opt([f"--passes={stages}"], text)
        assert status == 0, message
        assert output == expected


@pytest.mark.parametrize("text", [block[2] for block in BLOCK.finditer(PAGE) if block[1] == "trace"])
def test_every_trace_on_the_page_reads(text):
    status, _, message = run_opt(["--passes=parse"], text)
    assert status == 0, message
