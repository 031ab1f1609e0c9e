"""The C++ interface that compiled programs depend on (docs/abi.md): what the library exports in its inline namespace is the list beside this
file, and each public header stands in that namespace. ESCAPEMENT_BLESS=1 writes the list anew."""
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LIST = Path(__file__).with_name("cpp_symbols.txt")
HEADERS = sorted((ROOT / "include" / "escapement").glob("*.h"))
ABI = re.search(r"^#define ESCAPEMENT_ABI (\w+)$", (ROOT / "include/escapement/version.h").read_text(), re.MULTILINE)[1]


def exported():
    """Functions of the namespace, but for inline ones, which each compiler exports as it likes."""
    library = Path(os.environ.get("ESCAPEMENT_BUILD", ""), "src", "torch", "libescapement.so.0")
    if not library.is_file():
        pytest.skip("needs the build folder")
    lines = subprocess.run(["nm", "-DC", "--defined-only", library], capture_output=True, text=True, check=True).stdout.splitlines()
    names = {line.split(" ", 2)[2] for line in lines if line.split(" ", 2)[1] == "T"}
    return sorted(name for name in names if name.startswith(f"escapement::{ABI}::"))


def test_the_library_exports_what_the_list_says():
    found = exported()
    if os.environ.get("ESCAPEMENT_BLESS"):
        LIST.write_text("\n".join(found) + "\n")
    known = LIST.read_text().splitlines()
    gone, fresh = sorted(set(known) - set(found)), sorted(set(found) - set(known))
    assert gone == [], f"compiled programs need these: ESCAPEMENT_ABI in version.h must be the next after {ABI} (docs/abi.md)"
    assert fresh == [], "new in the interface: add them with ESCAPEMENT_BLESS=1"


def test_public_names_are_in_the_list():
    for name in ("jit", "load", "Module::run", "Session::set_timeout", "Engine::load", "Function::operator()", "detail::JitCore::call", "version()"):
        assert any(f"escapement::{ABI}::{name}" in line for line in LIST.read_text().splitlines()) or name == "jit", name   # jit is a template


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.name)
def test_a_public_header_stands_in_the_inline_namespace(header):
    spaces = re.findall(r"^namespace (.*) \{$", header.read_text(), re.MULTILINE)
    ours = [space for space in spaces if space.startswith("escapement")]
    assert ours or header.name in ("export.h", "version.h")
    assert all(space.startswith("escapement::inline ESCAPEMENT_ABI") for space in ours)
