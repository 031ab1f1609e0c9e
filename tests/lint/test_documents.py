"""What documents point to is there: their links, the files that they name, every page of docs in the index, every folder of tests/python."""
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(page for folder in (".", "docs", "tests", "tests/fuzz") for page in (ROOT / folder).glob("*.md"))
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
NAMED = re.compile(r"(?<![\w/.])(?:src|tests|docs|python|tools|examples|include|bench)/[\w/.-]*\w\.(?:h|cpp|def|py|md|txt)\b")


def lost_links(page):
    return [target for target in LINK.findall(page.read_text()) if not (page.parent / target).exists()]


def lost_files(page):
    """A page may name a file from the root, or from its own folder."""
    return [name for name in NAMED.findall(page.read_text()) if not (ROOT / name).exists() and not (page.parent / name).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_it_points_to_is_there(page):
    assert lost_links(page) == [] and lost_files(page) == []


def test_what_is_lost_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("[a](a.md), [b](page.md#here), [c](https://example.org/c.md); `src/trace/no_such.h`, `src/trace/ops.def`")
    assert lost_links(page) == ["a.md"] and lost_files(page) == ["src/trace/no_such.h"]


def test_the_index_has_every_page():
    index = LINK.findall((ROOT / "docs/README.md").read_text())
    assert [page.name for page in (ROOT / "docs").glob("*.md") if page.name not in index and page.name != "README.md"] == []


def test_tests_of_python_stand_in_the_folders_of_the_table():
    named = set(re.findall(r"`(\w+)/`", (ROOT / "tests/README.md").read_text().partition("## Folders of tests/python")[2]))
    folders = {path.parent.relative_to(ROOT / "tests/python").as_posix() for path in (ROOT / "tests/python").rglob("test_*.py")}
    assert folders == named, "'.' is a test outside of any folder: tests/README.md says what each shows"
