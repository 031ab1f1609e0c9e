"""What becomes of a function whose budget is spent, what never costs a compile, and what the report says about it."""

import json
import os
import subprocess
import sys
import textwrap

import escapement
import pytest
import torch
from escapement.ledger import LEDGER
from escapement.limits import COMPILES


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    escapement.reset()
    yield
    torch._dynamo.reset()


def run(function, calls, **options):
    """Compiles after each call; every result is eager's."""
    compiled, counts = torch.compile(function, backend="escapement", **options), []
    for args in calls:
        with torch.no_grad():
            torch.testing.assert_close(compiled(*args), function(*args), rtol=1e-5, atol=1e-5)
        counts.append(LEDGER.counters()["compiles"])
    return counts


def facts(function):
    return next(f for f in json.loads(everything().to_json())["functions"] if f["name"].split(".")[-1] == function.__name__)


def everything():
    from escapement.report import Report

    return Report(LEDGER.functions())


# --- the budget

def pinned(x):
    y = x * 2
    return y * len(range(x.size(0)))


def test_the_third_value_of_a_pinned_size_is_a_graph_break():
    counts = run(pinned, [(torch.randn(n),) for n in (5, 6, 7, 8, 9, 0, 1, 5, 6)])
    assert counts[:2] == [1, 2] and counts[2] == counts[-1] <= 4   # the general form, and at most one function after the break
    (function,) = [f for f in LEDGER.functions() if f.name.endswith("pinned") and "resume" not in f.name]
    assert len(function.breaks) == 1 and "test_budget.py:" in function.breaks[0] and [b.compiled for b in function.budgets.values()] == [3]


def test_old_versions_keep_serving_when_there_is_no_general_form():
    def listed(x):
        return x + len([0] * x.size(0))

    counts = run(listed, [(torch.randn(n),) for n in (5, 6, 7, 8, 9, 5, 6, 7, 5)])
    (function,) = LEDGER.functions()
    hits = [sum(version["hits"] for version in region.info()["versions"]) for region in function.regions()]
    assert counts[-1] == COMPILES and hits == [2, 1, 1] and function.refusals == 2


def test_full_graph_has_no_breaks_and_no_refusals():
    counts = run(pinned, [(torch.randn(n),) for n in (5, 6, 7, 8)], fullgraph=True)
    assert counts == [1, 2, 3, 4] and not LEDGER.counters()["graph_breaks"] and not LEDGER.counters()["refused_calls"]


def test_broadcasts_are_operators_questions_and_end_too():
    def body(x, y, z):
        return (x + y) * z + y

    sizes = [(5, 5, 5), (5, 1, 5), (1, 5, 5), (5, 5, 1), (1, 1, 5), (1, 5, 1), (5, 1, 1), (1, 1, 1), (7, 7, 7)]
    calls = [tuple(torch.randn(n) for n in each) for each in sizes]
    assert run(body, calls)[-1] <= COMPILES
    assert LEDGER.counters()["causes"]["framework"] >= 1


# --- what never costs a compile

def test_a_relation_that_all_compiles_held_is_no_break(caplog):
    def classes(x):
        best = (x * 2).softmax(-1).argmax(-1)       # not of nothing: asked in each compile, and the same in all of them
        return best, torch.histc(x, x.shape[-1])   # Dynamo wants this number as a constant

    run(classes, [(torch.randn(4, n),) for n in (5, 9, 40, 41, 42)])
    (first,) = [f for f in LEDGER.functions() if f.name.endswith("classes") and "resume" not in f.name]
    assert [len(compiled.guards) for compiled in first.compiles] == [2, 2, 1]
    operators = {op for region in first.regions() for kernel in region.info()["versions"][0]["kernels"] for op in kernel["ops"]}
    assert "argmax" in operators and not [record for record in caplog.records if record.levelname == "ERROR"]


def test_numbers_and_lists_of_numbers_do_not():
    def body(x, rate, numbers):
        return x * rate + numbers[0] * numbers[1]

    calls = [(torch.randn(4), rate, numbers) for rate, numbers in ((0.5, [3, 4]), (1.0, [0, 1]), (0.0, [1, 0]), (2.5, [1, 1]), (1e-3, [0, 0]))]
    assert run(body, calls)[-1] == 1


def test_an_attribute_that_varies_costs_one():
    class Model(torch.nn.Module):
        def forward(self, x):
            return x * self.step + self.rate

    model = Model()

    def calls():
        for i in range(7):
            model.step, model.rate = i, i / 3
            yield (torch.randn(3 + i),)

    assert run(model, calls())[-1] <= COMPILES


def test_an_empty_tensor_takes_its_own_branch():
    def body(x):
        if x.size(0):
            return x * 2
        return x.new_ones(3)

    def exact(x):
        return x + sum(1 for _ in range(x.size(0)))

    run(body, [(torch.randn(n),) for n in (5, 0, 1, 0, 6)])
    run(exact, [(torch.randn(n),) for n in (5, 0, 3, 0, 1)])


# --- errors are eager's

def test_a_user_error_is_eagers_in_class_and_words_and_later_calls_are_compiled():
    def body(x):
        return x.reshape(-1, 2).sum(0)

    compiled = torch.compile(body, backend="escapement")
    for n in (3, 4, 5, 6):
        x = torch.randn(n)
        if n % 2 == 0:
            torch.testing.assert_close(compiled(x), body(x))
            continue
        with pytest.raises(RuntimeError) as expected:
            body(x)
        with pytest.raises(RuntimeError) as found:
            compiled(x)
        assert type(found.value) is type(expected.value) and str(found.value) == str(expected.value)
    assert LEDGER.counters()["compiles"] == 1


def test_a_failed_check_has_the_programs_message():
    def body(x, n):
        torch._check(n <= x.size(0), lambda: "n is too large")
        return x * n

    compiled = torch.compile(body, backend="escapement")
    compiled(torch.randn(4), 3)
    with pytest.raises(RuntimeError, match="^n is too large$"):
        compiled(torch.randn(4), 5)
    compiled(torch.randn(6), 5)
    assert LEDGER.counters()["compiles"] == 1


# --- what is said

def branching(x):
    if x.size(1) > 6:
        return x * 2
    return x + 1


def test_an_escape_has_kind_value_path_line_cost_and_fix():
    run(branching, [(torch.randn(3, n),) for n in (7, 5)])
    function = facts(branching)
    (escape,), compiles = function["escapes"], function["compiles"]
    line = branching.__code__.co_firstlineno + 1
    assert (escape["kind"], escape["line"], os.path.basename(escape["file"])) == ("branch", line, "test_budget.py")
    assert escape["text"] == "if x.size(1) > 6:" and escape["path"] == ["L['x']", "size(1)", "gt"]
    assert escape["seen"] == {"L['x'].size(1)": 7} and escape["relations"] == ["L['x'].size(1) > 6", "L['x'].size(1) <= 6"]
    assert escape["cost"]["compiles"] == 1 and escape["cost"]["recordings"] == 1 and escape["cost"]["ms"] > 0
    assert "torch._check(x.size(1) > 6)" in escape["fix"]
    assert [c["cause"]["kind"] for c in compiles] == ["first", "branch"] and compiles[1]["cause"]["where"] == escape["where"]
    (miss,) = compiles[1]["misses"]
    assert "x.size()[1]" in miss["guard"] and miss["seen"] == "x.size()[1] = 5"


def test_the_text_says_the_same():
    run(branching, [(torch.randn(3, n),) for n in (7, 5)])
    text = str(everything())
    for part in ("path: L['x'] -> size(1) -> gt; first seen: L['x'].size(1) = 7", "cost: 1 compiles, 1 recordings", "fix: if it always holds",
                 "because version 0 expected", "seen x.size()[1] = 5"):
        assert part in text, text


def test_a_function_that_cannot_be_compiled_is_reported():
    def body(x):
        return x * len("k%d" % x.size(0))

    run(body, [(torch.randn(n),) for n in (5, 60, 7)])
    line = body.__code__.co_firstlineno + 1
    assert f"not compiled: Observed exception at {__file__}:{line}" in str(everything()) and LEDGER.counters()["skipped_frames"] >= 1


CHILD = textwrap.dedent("""
    import torch
    def body(x):
        if x.size(0) > 4:
            return x * 2
        return x + 1
    compiled = torch.compile(body, backend="escapement")
    with torch.no_grad():
        for n in (6, 3):
            compiled(torch.randn(n))
""")


def child(tmp_path, **environment):
    script = tmp_path / "program.py"
    script.write_text(CHILD)
    path = os.pathsep.join(part for part in sys.path if part)
    return subprocess.run([sys.executable, script], env={**os.environ, "PYTHONPATH": path, **environment}, capture_output=True, text=True,
                          check=True)


def test_every_compile_writes_a_structured_artifact(tmp_path):
    child(tmp_path, TORCH_TRACE=str(tmp_path / "trace"))
    (log,) = (tmp_path / "trace").iterdir()
    lines = log.read_text().splitlines()
    found = [i for i, line in enumerate(lines) if '"escapement_explain"' in line]
    payloads = [json.loads(lines[i + 1].strip()) for i in found]
    assert len(payloads) == 2 and all('"has_payload"' in lines[i] and '"frame_compile_id"' in lines[i] for i in found)
    assert [p["graphs"][0]["cause"]["kind"] for p in payloads] == ["first", "branch"]
    assert payloads[0]["graphs"][0]["escapes"][0]["relation"] == "L['x'].size(0) > 4"


def test_torch_logs_work_as_they_do(tmp_path):
    said = child(tmp_path, TORCH_LOGS="recompiles,guards").stderr
    assert "Recompiling function body" in said and "GUARDS:" in said
