"""What of the style a machine can tell. Lines are broken and tables laid out by hand: no settings of a formatter leave this code as it is."""
import re
from itertools import pairwise

import pytest

from test_files import ROOT, files

MOST_COLUMNS = {".h": 200, ".cpp": 200, ".def": 200, ".py": 240}
WIDE = {"scalar.def"}   # rows of coefficients
CPP = (".h", ".cpp")

RULES = {
    "a tab": (CPP + (".def", ".py"), re.compile(r"\t")),
    "blanks at the end of a line": (CPP + (".def", ".py"), re.compile(r"[ \t]+$")),
    "a keyword that touches its parenthesis": (CPP, re.compile(r"\b(?:if|for|while|switch)\(")),
    "a brace that touches what it opens behind": (CPP, re.compile(r"\)\{")),
    "a star or ampersand that stands with the name": (CPP, re.compile(r"^\s*(?!return|throw|delete|case|co_)(?:const )?[A-Za-z_:]+ [*&]{1,2}[a-z_]\w*(?: = | \{|;|\))(?!.*, [*&])")),   # of one name
    "a comment that touches its text": (CPP, re.compile(r"(?:^|\s)//[A-Za-z]")),
    "one blank before a comment behind code": (CPP, re.compile(r"[;{}] //")),
}


def code(line):
    """Without what is quoted."""
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', line)


def offences(text, suffix, wide=False):
    """(line, what is wrong with it). `wide`: rows of tables, which may be long."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        for name, (suffixes, pattern) in RULES.items():
            if suffix in suffixes and pattern.search(code(line)):
                found.append((number, name))
        if not wide and len(line) > MOST_COLUMNS[suffix]:
            found.append((number, "a line that is too long"))
    if text and (not text.endswith("\n") or text.endswith("\n\n")):
        found.append((text.count("\n"), "no single end of line at the end"))
    if suffix in CPP:
        found += [(number, "two blank lines") for number, (a, b) in enumerate(pairwise(text.split("\n")), 1) if a == b == "" and number < text.count("\n")]
    return found


def includes_out_of_order(text):
    """Blocks of includes, each in alphabetical order, as is said of headers in angle brackets and of ours."""
    blocks = re.findall(r"(?:^#include [<\"][^>\"]+[>\"].*\n)+", text, re.MULTILINE)
    named = [re.findall(r"#include ([<\"][^>\"]+)", block) for block in blocks]
    return [block for block in named if block != sorted(block, key=lambda name: name[1:])]


def test_the_style_is_kept():
    wrong = [(f.relative_to(ROOT).as_posix(), *offence) for f in files(".h", ".cpp", ".def", ".py")
             for offence in offences(f.read_text(), f.suffix, f.name in WIDE or "tests" in f.parts)]
    assert wrong == []


def test_includes_are_in_order():
    assert {f.relative_to(ROOT).as_posix(): bad for f in files(*CPP) if (bad := includes_out_of_order(f.read_text()))} == {}


@pytest.mark.parametrize("line, name", [
    ("\tint a;\n", "a tab"), ("int a; \n", "blanks at the end of a line"), ("if(a) return;\n", "a keyword that touches its parenthesis"),
    ("void f(){}\n", "a brace that touches what it opens behind"), ("  const Trace *trace = nullptr;\n", "a star or ampersand that stands with the name"),
    ("//a\n", "a comment that touches its text"), ("int a; // b\n", "one blank before a comment behind code"), ("int a;", "no single end of line at the end"),
    ("int a;\n\n\nint b;\n", "two blank lines"), ("int a;" + " int b;" * 40 + "\n", "a line that is too long")])
def test_an_offence_is_found(line, name):
    assert name in [found for _, found in offences(line, ".cpp")]


@pytest.mark.parametrize("text", ['puts("if(");\n', "a * b;\n", "auto&& x = *y;\n", "return *this;\n", "const Term &a = x, &b = y;\n"])
def test_what_is_none_is_not(text):
    assert offences(text, ".cpp") == []


def test_an_include_out_of_order_is_found():
    assert includes_out_of_order('#include "b.h"\n#include "a.h"\n') == [['"b.h', '"a.h']]
    assert includes_out_of_order('#include "b.h"\n\n#include <a>\n#include "c.h"\n') == []
