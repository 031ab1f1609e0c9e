"""A type that escapement::jit cannot carry is one error of the compiler's, which says what is wrong, of which parameter and of which type."""
import re
import subprocess
from pathlib import Path

import pytest
import torch
from torch.utils.cpp_extension import include_paths

ROOT = Path(__file__).resolve().parents[3]
HEAD = """#include <boost/hana/adapt_struct.hpp>
#include <escapement/jit.h>
#include <ATen/core/List.h>
#include <map>
#include <set>
using at::Tensor;
struct Config { int64_t depth; };
struct Part { Tensor tensor; double factor; bool on; };
BOOST_HANA_ADAPT_STRUCT(Part, tensor, factor);
struct Closed { Closed() {} Tensor tensor; };
BOOST_HANA_ADAPT_STRUCT(Closed, tensor);
"""
# (a function, what the error names). Each stands on a line of its own, and is called: that adds no error.
PARAMETER, RESULT = "this parameter cannot be carried", "this result cannot be carried"
REFUSED = [
    ("[](Tensor x, std::map<std::string, Tensor> m) { return x; }", PARAMETER, r"CheckParameter<2, std::map<", "x, {}"),
    ("[](const Tensor& x, const std::vector<std::optional<Config>>& c) { return x; }", PARAMETER, r"CheckParameter<2, .*Config>", "x, {}"),
    ("[](Tensor x, const char* text) { return x; }", PARAMETER, r"CheckParameter<2, const char\*", 'x, "a"'),
    ("[](Tensor x, void* data) { return x; }", PARAMETER, r"CheckParameter<2, void\*", "x, nullptr"),
    ("[](Tensor x, std::vector<std::string_view> names) { return x; }", PARAMETER, r"CheckParameter<2, .*string_view", "x, {}"),
    ("[](Tensor x, std::string_view& name) { return x; }", PARAMETER, r"CheckParameter<2, std::.*string_view", "x, view"),
    ("[](Tensor x, c10::SymFloat& s) { return x; }", PARAMETER, r"CheckParameter<2, c10::SymFloat&", "x, real"),
    ("[](std::tuple<Tensor, std::set<int>> both) { return std::get<0>(both); }", PARAMETER, r"CheckParameter<1, .*std::set<int>", "{}"),
    ("[](Tensor x, Part part) { return x; }", PARAMETER, r"CheckParameter<2, Part, Part>", "x, {}"),
    ("[](Tensor x, Closed closed) { return x; }", PARAMETER, r"CheckParameter<2, Closed, Closed>", "x, {}"),
    ("[](Tensor x) { return Config{1}; }", RESULT, r"CheckResult<Config, Config>", "x"),
    ("[](Tensor x) { return std::vector<std::pair<Tensor, std::map<int, int>>>(); }", RESULT, r"CheckResult<.*std::map<int, int>", "x"),
    ("[](auto x) { return x; }", "the callable is generic or overloaded: name its signature", r"lambda", None),
]


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """All of them in one program, since most of the time goes into torch's headers: the errors by the line that is to blame."""
    lines = [f"void use{i}(Tensor x, std::string_view view, c10::SymFloat real) {{ auto f = escapement::jit({function}); {f'f({call});' if call else ''} }}"
             for i, (function, _, _, call) in enumerate(REFUSED)]
    source = tmp_path_factory.mktemp("refused") / "refused.cpp"
    source.write_text(HEAD + "\n".join(lines) + "\n")
    command = ["g++", "-std=c++20", "-fsyntax-only", "-fdiagnostics-color=never", f"-I{ROOT / 'include'}", *[f"-isystem{path}" for path in include_paths()]]
    text = subprocess.run([*command, str(source)], capture_output=True, text=True, timeout=600).stderr
    first, found = HEAD.count("\n") + 1, {}
    for block in re.split(r"(?m)^(?=\S*(?:refused\.cpp|\.h|\.hpp): In (?:instantiation|function|substitution))", text):
        at = re.findall(r"refused\.cpp:(\d+):\d+:   required from here", block)
        if at and ": error: " in block:
            found.setdefault(int(at[-1]) - first, []).append(block)
    return found, text


@pytest.mark.parametrize("number", range(len(REFUSED)), ids=[row[0][:50] for row in REFUSED])
def test_it_is_refused_by_one_error_that_names_the_type(errors, number):
    found, text = errors
    _, message, named, _ = REFUSED[number]
    blocks = found.get(number, [])
    messages = [line for block in blocks for line in block.splitlines() if ": error: " in line]
    assert len(messages) == 1, text[:6000]
    assert message in messages[0], messages
    assert any(re.search(named, block) for block in blocks), blocks
    assert len("\n".join(blocks).splitlines()) < 25


def test_what_is_supported_compiles(errors):
    assert torch.__version__ and set(errors[0]) == set(range(len(REFUSED))), errors[1][:6000]
