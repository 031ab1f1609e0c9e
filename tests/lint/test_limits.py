"""docs/limits.md shows every row of the two tables of limits, as they are; what two languages limit alike has one value. ESCAPEMENT_BLESS=1 writes the page."""
import importlib.util
import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/limits.md"
ROW = re.compile(r'^LIMIT\((\w+), (\d+), "([^"]+)"\)$')
SAME = {"versions_of_a_form": "COMPILES", "kinds_of_calls": "KEYS"}

HEAD = """# Limits

Where a program or a call begins to be treated otherwise, and what becomes of more. They are fixed when the library is built; what you set yourself is an
option. This page is written from `src/support/limits.def` and `python/escapement/limits.py` by `tests/lint/test_limits.py`; do not edit it.
"""


def core_limits():
    lines = (ROOT / "src/support/limits.def").read_text().splitlines()
    rows = [line for line in lines if line and not line.startswith("//")]
    assert all(ROW.match(row) for row in rows), [row for row in rows if not ROW.match(row)]
    return {name: (int(value), what) for name, value, what in (ROW.match(row).groups() for row in rows)}


def python_limits():
    spec = importlib.util.spec_from_file_location("limits", ROOT / "python/escapement/limits.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert all(getattr(module, name) == value for name, (value, _) in module.TABLE.items())
    return module.TABLE


def table(title, limits):
    rows = [f"| `{name}` | {value} | {what} |" for name, (value, what) in limits.items()]
    return "\n".join([f"\n## {title}\n", "| limit | value | of what, and what becomes of more |", "|---|---|---|", *rows, ""])


def test_the_page_shows_all_limits():
    text = HEAD + table("Of the core", core_limits()) + table("Of the Python front ends", python_limits())
    if os.environ.get("ESCAPEMENT_BLESS"):
        PAGE.write_text(text)
    assert PAGE.read_text() == text, "ESCAPEMENT_BLESS=1 python -m pytest tests/lint/test_limits.py writes it"


def test_what_two_languages_limit_alike_has_one_value():
    core, python = core_limits(), python_limits()
    assert {name: core[name][0] for name in SAME} == {name: python[other][0] for name, other in SAME.items()}


def test_each_limit_is_used():
    code = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*") if path.suffix in (".h", ".cpp"))
    scripts = "\n".join(path.read_text() for path in (ROOT / "python").rglob("*.py") if path.name != "limits.py")
    assert [name for name in core_limits() if f"limits::{name}" not in code] == []
    assert [name for name in python_limits() if len(re.findall(rf"\b{name}\b", scripts)) < 2] == []
