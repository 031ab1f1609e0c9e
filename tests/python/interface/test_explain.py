"""What explain() and stats() say about compiled programs, with the real core: each fact that DESIGN promises is there, once, in words
of the user's program (input sizes by name, lines of this file), and text without times or addresses.
"""

import json
import math
import re
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

import escapement

pytestmark = pytest.mark.usefixtures("fresh")


def explain(fn, *args, **options):
    with torch.no_grad():
        return escapement.explain(fn, **options)(*args)


def lines(report):
    return [line.strip() for line in str(report).splitlines()]


def some(report, *parts):
    """The lines that hold all parts."""
    return [line for line in lines(report) if all(part in line for part in parts)]


def two_axes(x, y):
    return torch.softmax(x * 2 + y, -1).sum(0)


def test_kernels_name_their_ops_and_why_they_stayed_apart():
    report = explain(two_axes, torch.randn(5, 64), torch.randn(5, 64))
    assert len(some(report, "kernel k")) == 2 and some(report, "kernel k0", "mul, add, amax", "exp")
    assert some(report, "apart:", "| sum", "reduce over different axes", "(apart_reduced_axes)")
    assert report.result.shape == (64,)


def test_symbols_are_the_users_sizes():
    report = explain(two_axes, torch.randn(5, 64), torch.randn(5, 64))
    assert len(some(report, "symbol", "].size(0)")) == 1 and len(some(report, "symbol", "].size(1)")) == 1
    assert some(report, "guard: L['x'].size(0) == L['y'].size(0)", "test_explain.py:")


def test_strides_of_another_layout_are_symbols_too():
    def body(x):
        return x * 2

    report = explain(body, torch.randn(4, 8)[:, ::2])
    assert some(report, "symbol", "L['x'].stride(0)") or some(report, "symbol", "L['x'].stride(1)")


def test_ops_left_to_aten_have_a_reason_and_a_line():
    def body(x):
        y = torch.sort(x, 0)[0]
        return F.dropout(torch.poisson(y.exp()), 0.5, True)

    report = explain(body, torch.randn(6, 3))
    first = body.__code__.co_firstlineno
    assert some(report, "left to ATen: aten::sort", "call_no_row", f"test_explain.py:{first + 1} in body")
    assert some(report, "left to ATen: aten::poisson", "call_random", f"test_explain.py:{first + 2}")
    assert some(report, "a call of ours: escapement::random_mask", "call_random", f"test_explain.py:{first + 2}")
    assert some(report, "apart: call | exp", "apart_library_call")


def test_equal_facts_are_one_line_with_a_count():
    def body(x, w):
        for _ in range(3):
            x = torch.mm(x, w)
        return x

    report = explain(body, torch.randn(4, 4), torch.randn(4, 4))
    calls = some(report, "left to ATen: aten::mm")
    assert len(calls) == 1 and calls[0].endswith("(x3)") and "call_contraction" in calls[0]
    assert len(report.functions[0]["regions"][0]["versions"][0]["calls"]) == 3   # the data has each


def test_guards_of_the_core_say_when_and_why():
    def body(x, n):
        return torch.arange(n) + x[:n]

    report = explain(body, torch.randn(9), 5)
    guards = some(report, "guard", "at entry")
    assert guards and all(": " in line and "test_explain.py:" in line for line in guards)


def test_a_branch_on_a_size_is_an_escape_with_its_line():
    def body(x):
        if x.size(0) > 4:
            return x * 2
        return x + 1

    report = explain(body, torch.randn(6))
    (escape,) = some(report, "escape:")
    assert escape.startswith("escape: L['x'].size(0) > 4 at ") and f":{body.__code__.co_firstlineno + 1} in body" in escape
    assert escape.endswith("from L['x'].size(0)")


def test_a_branch_on_a_value_is_a_graph_break_with_its_line():
    def body(x):
        if x.sum() > 0:
            return x * 2
        return x - 1

    report = explain(body, torch.ones(3))
    assert some(report, "graph break:", f"test_explain.py:{body.__code__.co_firstlineno + 1}")
    assert sum("recordings, " in line for line in lines(report)) == 2     # before the branch, and one side of it


def test_exits_are_shown_with_their_sides():
    def body(x):
        x.mul_(2)
        return x + 1 if x.sum() > 0 else x - 1

    jitted = escapement.jit(body)
    for sign in (1, -1, 1):
        jitted(torch.full((3,), float(sign)))
    text = str(escapement.explain(jitted)(torch.ones(3)))
    assert f"test_explain.py:{body.__code__.co_firstlineno + 2}" in text
    assert re.search(r"exit at .*: branch.*; \d values handed on, 1 calls went on with the program itself", text)
    assert re.search(r"side 0: 1 kernels, 0 calls, \d hits", text) and "side 1: 1 kernels" in text


def test_a_fallback_is_named():
    def body(x, y):
        y.add_(1)
        with torch.autocast("cpu", torch.bfloat16):     # which has the sides recorded in place
            for i in range(20):                          # more exits than one recording has
                x = torch.cond(y.sum() > i - 100, lambda a: a * 2, lambda a: a - 1, (x,))
                y.add_(1)
            return x

    report = explain(body, torch.ones(3), torch.ones(3))
    assert some(report, "fallback: data_dependent_guard")
    assert escapement.stats()["data_dependent_guard"] == 1


def test_a_miss_by_a_value_says_so():
    def printed(x, state):
        state.add_(1)
        f"{state.sum().item():.3f}"
        return x * 2

    jitted = escapement.jit(printed)
    with torch.no_grad():
        for n in range(4):
            jitted(torch.ones(2), torch.full((1,), n / 3))
        report = escapement.explain(jitted)(torch.ones(2), torch.ones(1))
    missed = [line for line in str(report).splitlines() if "miss:" in line]
    assert missed and all(line.endswith(": not what was seen when it was recorded") for line in missed), missed
    assert torch.equal(report.result, torch.full((2,), 2.0)) and "recording" in report.timings()


def test_a_replayed_function_has_no_times():
    report = escapement.explain(escapement.jit(lambda x: x * 2, mode="replay"))(torch.ones(2))
    assert report.timings() == "no timings\n" and torch.equal(report.result, torch.full((2,), 2.0))
    assert json.loads(report.to_json())["functions"][0]["mode"] == "replay"


def test_another_layout_is_another_key():
    def body(x):
        return x * 2

    compiled = torch.compile(body, backend="escapement")
    explain(compiled, torch.randn(4, 4))
    report = explain(compiled, torch.randn(5, 6)[:, ::2])
    assert [re.sub(" of.*", "", line) for line in some(report, "compile 1")] == ["compile 1", "compile 1"]
    assert len(some(report, "key 2")) == 1


def test_a_compiled_function_is_explained_by_what_ran():
    compiled = torch.compile(two_axes, backend="escapement")
    explain(compiled, torch.randn(2, 3), torch.randn(2, 3))
    report = explain(compiled, torch.randn(7, 9), torch.randn(7, 9))
    assert some(report, "region two_axes", "1 recordings, 1 versions") and some(report, "version 0", "1 hits")


def test_training_shows_forward_and_backward():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4))

    def loss(x, target):
        return F.cross_entropy(model(x), target)

    compiled = torch.compile(loss, backend="escapement")
    args = torch.randn(5, 8), torch.randint(0, 4, (5,))
    escapement.explain(compiled)(*args).result.backward()
    report = escapement.explain(compiled)(*args)
    assert some(report, "region loss", "forward: 1 recordings") and some(report, "region loss", "backward: 1 recordings")
    assert some(report, "symbol", "].size(0)") and some(report, "kernel", "gelu_backward")


def test_bert():
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=50)
    report = explain(transformers.BertModel(config, add_pooling_layer=False).eval(), torch.randint(0, 50, (3, 7)))
    assert some(report, "function BertModel.forward") and some(report, "compile 1 of 3: 2 of 2 input dims are dynamic")
    assert some(report, "symbol", "L['input_ids'].size(1)") and some(report, "guard", "512")
    assert some(report, "kernel", "rsqrt", "(4 launches)")
    assert some(report, "left to ATen: aten::scaled_dot_product_attention", "call_contraction", "(x2)")
    assert not some(report, "graph break") and not some(report, "fallback") and not some(report, "site-packages")


def test_text_is_the_same_in_another_process_and_has_no_times():
    code = "\n".join(["import torch, escapement", "def body(x):", "    return (x * 2).sum(-1)",
                      "with torch.no_grad(): print(escapement.explain(body)(torch.randn(3, 4)))"])
    first, second = (subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout for _ in range(2))
    assert first == second and "kernel" in first and not re.search(r"0x[0-9a-f]{6}|\d ms", first)


def test_times_of_every_step_in_the_order_of_the_steps():
    times = explain(two_axes, torch.randn(5, 6), torch.randn(5, 6)).timings()
    names = [re.search(r": ([a-z_ A-Z]+?) [\d.]+ ms$", line)[1] for line in times.splitlines()]
    assert names[:2] == ["capture by Dynamo", "recording"] and names[-1] == "codegen"
    assert names.index("dce") < names.index("cse") < names.index("plan")


def test_the_data_holds_what_the_text_says():
    report = explain(two_axes, torch.randn(5, 6), torch.randn(5, 6))
    (facts,) = json.loads(report.to_json())["functions"]
    version = facts["regions"][0]["versions"][0]
    assert facts["compiles"][0]["capture_ms"] > 0 and version["timings"]["codegen"] > 0 and version["record_ms"] > 0
    assert "L['x']" in facts["regions"][0]["inputs"] and version["apart"][0]["message"]
    assert facts["compiles"][0]["guards"][0]["sources"] == ["L['x']:1", "L['y']:1"]


def test_stats_count_what_happened():
    compiled = torch.compile(lambda x: (x * 2).sum(-1), backend="escapement")
    before = escapement.stats()
    with torch.no_grad():
        for n in (3, 5, 7):
            compiled(torch.randn(n, 4))
    after = escapement.stats()
    grown = {name: after.get(name, 0) - before.get(name, 0) for name in ("calls", "recordings", "hits", "compile_nanoseconds")}
    assert (grown["calls"], grown["recordings"], grown["hits"]) == (3, 1, 2) and grown["compile_nanoseconds"] > 0
    assert after["dynamo"]["compiles"] == 1 and after["dynamo"]["capture_ms"] > 0


def test_a_constant_of_a_module_is_no_input():
    report = explain(lambda x: x * math.pi, torch.randn(3))
    assert report.functions[0]["regions"][0]["inputs"] == ["L['x'].size(0)", "L['x']"]
