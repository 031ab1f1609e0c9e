"""The options of C++ as structs (include/escapement/options.h) are those of the option table, in its order and with its types."""
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TYPES = {"boolean": "bool", "integer": "int64_t", "text": "std::string"}
ELSEWHERE = {"JitOptions": {"trust_package"}, "LoadOptions": set()}   # of files only


def table():
    """(name, C++ type) of each row that is not for tests only. How compiling goes on is an enum."""
    rows = re.findall(r'^OPTION\((\w+), (\w+), .*?, "(.*)"\)$', (ROOT / "src/support/options.def").read_text(), re.MULTILINE)
    return [(name, "Compile" if name == "compile" else TYPES[kind]) for name, kind, doc in rows if not doc.startswith("for tests only")]


def fields(struct):
    body = re.search(rf"struct {struct} \{{(.*?)\n\}};", (ROOT / "include/escapement/options.h").read_text(), re.DOTALL)[1]
    return [(name, kind) for kind, name in re.findall(r"std::optional<([\w:]+)> (\w+) = \{\};", body)]


@pytest.mark.parametrize("struct", ["JitOptions", "LoadOptions"])
def test_a_struct_has_the_rows_of_the_table(struct):
    wanted = [row for row in table() if row[0] not in ELSEWHERE[struct]]
    assert len(wanted) > 10 and fields(struct) == wanted
