"""Every source file opens with its contract, stays readable in length, and stands in the build's lists."""
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAX_LINES = 800
CODE_ROOTS = ("src", "include", "python", "tools", "tests", "bench", "examples")


def files(*suffixes):
    return [f for top in CODE_ROOTS for f in sorted((ROOT / top).rglob("*")) if f.suffix in suffixes and f.is_file()]


def contract_of(text):
    """The comment that a C++ file opens with, as words; empty if it opens with anything else."""
    block = re.match(r"\s*/\*(.*?)\*/", text, re.DOTALL)
    if block:
        return block.group(1).strip()
    lines = []
    for line in text.lstrip().splitlines():
        if not line.startswith("//"):
            break
        lines.append(line.lstrip("/ "))
    return " ".join(lines).strip()


def says_something(contract):
    return len(contract.split()) >= 3


def is_silent(file):
    """A .cpp may point to the header of its name (`See arena.h.`), which then says it for both."""
    contract, header = contract_of(file.read_text()), file.with_suffix(".h")
    if file.suffix == ".cpp" and contract.startswith(f"See {header.name}"):
        return not header.exists() or is_silent(header)
    return not says_something(contract)


def test_every_cpp_file_opens_with_its_contract():
    silent = [f.relative_to(ROOT).as_posix() for f in files(".h", ".cpp") if is_silent(f)]
    assert silent == []


@pytest.mark.parametrize("text", ["#pragma once\n// late, and therefore not the contract of this file", "// trace.h\n", "",
                                  "int x;  // a comment that stands after some code\n"])
def test_a_file_without_contract_is_found(text):
    assert not says_something(contract_of(text))


@pytest.mark.parametrize("text", ["// What this file promises,\n// in a sentence.\n#pragma once", "/* What this file promises. */"])
def test_a_contract_is_recognised(text):
    assert says_something(contract_of(text))


def test_a_pointer_counts_only_where_it_leads_to_a_contract(tmp_path):
    source, header = tmp_path / "a.cpp", tmp_path / "a.h"
    source.write_text("// See a.h.\n")
    assert is_silent(source)
    header.write_text("#pragma once\n")
    assert is_silent(source)
    header.write_text("// What both files promise.\n#pragma once\n")
    assert not is_silent(source)


def test_no_file_is_too_long():
    lengths = {f.relative_to(ROOT).as_posix(): f.read_text().count("\n") for f in files(".h", ".cpp", ".def", ".py")}
    assert {name: n for name, n in lengths.items() if n > MAX_LINES} == {}


def listed_in(meson_file):
    return {(meson_file.parent / name).resolve() for name in re.findall(r"'([^']+\.(?:cpp|py|h))'", meson_file.read_text())}


def unlisted(root, tops):
    """.cpp files that no meson.build names: they would never be compiled, or tests in them never run."""
    named = {path for top in tops for build in (root / top).rglob("meson.build") for path in listed_in(build)}
    return [f.relative_to(root).as_posix() for top in tops for f in sorted((root / top).rglob("*.cpp"))
            if f.resolve() not in named and "packaging" not in f.parts]


def test_every_cpp_file_is_built():
    assert unlisted(ROOT, ("src", "tests", "tools")) == []


def test_every_python_file_and_public_header_is_installed():
    python = set((ROOT / "python" / "escapement").rglob("*.py"))
    headers = {f.name for f in (ROOT / "include" / "escapement").rglob("*.h")}
    assert sorted(python ^ listed_in(ROOT / "python" / "meson.build")) == []
    assert sorted(headers - {path.name for path in listed_in(ROOT / "src" / "torch" / "meson.build")}) == []


def test_a_forgotten_file_is_found(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "meson.build").write_text("files('a.cpp')\n")
    for name in ("a.cpp", "b.cpp"):
        (tmp_path / "src" / name).write_text("")
    assert unlisted(tmp_path, ("src",)) == ["src/b.cpp"]


def of_one_name(root, folders):
    """Test modules and their helpers are imported by name alone: of two with one name, the second stops the whole suite, or is shadowed."""
    names = {}
    for f in (f for folder in folders for f in sorted((root / folder).rglob("*.py")) if f.name != "conftest.py"):
        names.setdefault(f.name, []).append(f.relative_to(root).as_posix())
    return [paths for paths in names.values() if len(paths) > 1]


def test_no_two_test_files_have_one_name():
    folders = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["testpaths"]
    assert len(folders) > 1 and of_one_name(ROOT, folders) == []


def test_a_second_file_of_a_name_is_found(tmp_path):
    for name in ("a/test_x.py", "b/test_x.py", "b/test_y.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert of_one_name(tmp_path, ["a", "b"]) == [["a/test_x.py", "b/test_x.py"]]


@pytest.mark.parametrize("table, macro, type_name", [("stats.def", "STAT", "Stat"), ("reason.def", "REASON", "Reason")])
def test_every_row_of_a_table_of_counters_is_counted_somewhere(table, macro, type_name):
    """A row that nobody counts reads as "it never happened"."""
    rows = re.findall(rf"^{macro}\((\w+),", (ROOT / "src/support" / table).read_text(), re.MULTILINE)
    code = "".join(f.read_text() for f in sorted((ROOT / "src").rglob("*")) if f.suffix in (".h", ".cpp"))
    assert rows and [row for row in rows if not re.search(rf"\b{type_name}::{row}\b", code)] == []
