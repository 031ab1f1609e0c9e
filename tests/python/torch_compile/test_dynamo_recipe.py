"""The Dynamo side: one compile for all sizes, the budget, what becomes of escapes, and what stays untouched.

"Dynamic" is proved, not inferred from the absence of recompiles alone: the ledger counts the dims of user inputs which are
constants in the graph.
"""

import concurrent.futures
import math
import re
import subprocess
import sys
import textwrap

import pytest
import torch

import escapement
from escapement.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh")


def counters():
    return escapement.stats()["dynamo"]


def run_all(fn, calls, **options):
    """Calls the compiled function with each tuple of arguments, compares with eager, and returns the counters."""
    compiled = torch.compile(fn, backend="escapement", **options)
    for args in calls:
        with torch.no_grad():
            torch.testing.assert_close(compiled(*args), fn(*args), rtol=1e-5, atol=1e-6)   # bits are other tests' business
    return counters()


def vectors(*sizes):
    return [(torch.randn(n),) for n in sizes]


# --- one compile

def test_pointwise_needs_one_compile_for_all_sizes():
    def body(x, y):
        return x * 2 + y

    seen = run_all(body, [(torch.randn(n, 3), torch.randn(n, 3)) for n in (5, 7, 1, 0, 2)])
    assert (seen["compiles"], seen["input_dims"], seen["specialised_dims"]) == (1, 4, 0)


@pytest.mark.parametrize("first", [0, 1])
def test_a_first_call_at_zero_or_one_serves_all_sizes(first):
    calls = vectors(first, 5, 7, 1, 0, 2, 13)
    before = escapement.stats().get("launches", 0)
    seen = run_all(lambda x: x * 2, calls)
    assert (seen["compiles"], seen["specialised_dims"]) == (1, 0)
    assert escapement.stats()["launches"] - before >= sum(len(x) > 0 for x, in calls)


def test_a_first_call_that_a_symbol_would_break_is_reported_as_specialised():
    seen = run_all(lambda x: x * math.comb(x.shape[0], 1), vectors(1, 1))
    assert (seen["compiles"], seen["specialised_dims"], seen["graph_breaks"]) == (1, 1, 0)
    pinned = [p for f in LEDGER.functions() for c in f.compiles for p in c.pinned]
    assert (pinned[0].source, pinned[0].dim, pinned[0].value) == ("L['x']", 0, 1) and "when first seen" in pinned[0].why


def test_float_and_int_arguments_are_symbols_from_the_start():
    seen = run_all(lambda x, f, n: x * f + n, [(torch.randn(k), f, n) for k, f, n in ((5, 0.5, 2), (6, 1.5, 9), (7, 3.0, 0))])
    assert seen["compiles"] == 1


def test_containers_and_closures():
    scale = torch.randn(4)

    def body(xs, named):
        return torch.cat(xs) * named["y"] + scale.sum()

    seen = run_all(body, [([torch.randn(n), torch.randn(m)], {"y": torch.randn(n + m)}) for n, m in ((3, 4), (5, 2), (8, 9))])
    assert seen["compiles"] == 1 and seen["specialised_dims"] == 0


def test_parameters_are_not_counted_as_inputs():
    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.BatchNorm1d(4)).eval()
    seen = run_all(model, [(torch.randn(n, 8),) for n in (2, 3, 5)])
    # The inner dim meets the weight's: pinned by the program, and reported with its place.
    assert seen["compiles"] == 1 and seen["input_dims"] == 2
    pinned = [p for f in LEDGER.functions() for c in f.compiles for p in c.pinned]
    assert [(p.dim, p.value) for p in pinned] == [(1, 8)] and "pinned at" in pinned[0].why


def test_broadcast_at_one_is_retried_instead_of_raised():
    seen = run_all(lambda x, y: x + y, [(torch.randn(n, 4), torch.randn(8, 4)) for n in (8, 1, 8, 1)])
    assert seen["compiles"] <= 2


def test_sizes_stay_symbolic_through_arithmetic():
    def body(x):
        b, s = x.shape
        return x.reshape(s * b).new_zeros(b + 1, s // 2).sum() + x.view(b * s).sum()

    seen = run_all(body, [(torch.randn(b, s),) for b, s in ((2, 6), (3, 4), (5, 9))])
    assert seen["compiles"] == 1 and seen["specialised_dims"] == 0


# --- escapes and budget

def chain(x):
    if x.size(0) > 8:
        return x * 2
    elif x.size(0) > 6:
        return x + 1
    elif x.size(0) > 4:
        return x - 1
    return x / 2


def test_a_chain_of_branches_ends():
    sizes = list(range(2, 13))
    run_all(chain, vectors(*sizes))
    settled = counters()["compiles"]
    compiled = torch.compile(chain, backend="escapement")
    for (x,) in vectors(*sizes):
        with torch.no_grad():
            assert torch.equal(compiled(x), chain(x))
    settled, bound = counters()["compiles"], counters()["compiles"] - settled
    for (x,) in vectors(*sizes, *sizes):
        with torch.no_grad():
            assert torch.equal(compiled(x), chain(x))
    assert counters()["compiles"] == settled <= 12 and bound <= 4
    assert counters()["graph_breaks"] > 0


def test_a_branch_is_named_with_its_line_and_source():
    run_all(chain, vectors(9))
    notes = [e for f in LEDGER.functions() for c in f.compiles for e in c.escapes]
    assert notes and notes[0].sources == ("L['x']:0",) and "test_dynamo_recipe.py" in notes[0].where


def test_range_over_a_size_stops_compiling():
    def body(x):
        total = x.sum()
        for i in range(x.size(0)):
            total = total + x[i] * i
        return total

    run_all(body, vectors(3, 4, 5, 6, 7))
    settled = counters()["compiles"]
    run_all(body, vectors(8, 9, 10, 11))
    # Every frame has its own budget, and so does every wrapper of torch.compile: nothing grows with the number of sizes.
    assert counters()["compiles"] - settled <= 1


def test_keys_do_not_use_up_the_budget():
    def body(x):
        return x * 2 if x.size(0) > 4 else x + 1

    calls = [(torch.randn(n).to(dtype),) for dtype in (torch.float32, torch.float64) for n in (3, 6)]
    assert run_all(body, calls)["compiles"] == 4
    assert not any(f.given_up for f in LEDGER.functions())


# --- others are left alone

def test_another_backend_stays_as_it_is():
    seen = []

    def other(gm, inputs):
        seen.append([tuple(type(n) for n in x.shape) for n in gm.graph.find_nodes(op="placeholder")
                     if isinstance(x := n.meta["example_value"], torch.Tensor)])
        return gm.forward

    def body(x):
        return x * 3

    torch.compile(body, backend="escapement")(torch.randn(5))
    torch.compile(body, backend=other)(torch.randn(5))
    assert seen == [[(int,)]]


def test_dynamic_false_is_respected():
    seen = run_all(lambda x: x * 2, vectors(5, 6), dynamic=False)
    assert seen["compiles"] == 2 and seen["specialised_dims"] == 2


def test_two_threads():
    def work(offset):
        def body(x, y):
            return x * 2 + y + offset

        compiled = torch.compile(body, backend="escapement")
        return all(torch.equal(compiled(x, y), body(x, y))
                   for n in (5, 7, 1, 2) for x, y in [(torch.randn(n), torch.randn(n))])

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert all(pool.map(work, range(2)))
    assert counters()["specialised_dims"] == 0


def test_higher_order_operators_are_made_recordable_at_first_use():
    from functorch.experimental.control_flow import cond

    def body(x):
        return cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    seen = run_all(body, [(torch.ones(3),), (-torch.ones(4),)])
    assert seen["compiles"] == 1 and not seen["fallbacks"]


def test_real_errors_are_still_errors():
    compiled = torch.compile(lambda x, y: x @ y, backend="escapement")
    with pytest.raises(Exception, match="size|shape|mat"):
        compiled(torch.randn(3, 4), torch.randn(5, 6))


# --- failing at compile time

def test_a_failure_of_ours_runs_eagerly_with_one_warning(fake):
    fake.fail_next.append(RuntimeError("no room"))
    fake.fail_next.append(RuntimeError("no room"))
    with pytest.warns(RuntimeWarning, match="runs a graph eagerly .internal_error.: RuntimeError: no room") as caught:
        seen = run_all(lambda x: x * 2, vectors(5, 6, 7))
        run_all(lambda x: x * 3, vectors(5))
    assert len(caught) == 1 and seen["fallbacks"] == {"internal_error": 1}


def test_strict_makes_it_an_error(fake):
    fake.fail_next.append(RuntimeError("no room"))
    compiled = torch.compile(lambda x: x * 2, backend="escapement", options={"strict": True})
    with pytest.raises(Exception, match="internal_error: RuntimeError: no room"):
        compiled(torch.ones(3))
    assert not fake.fail_next


def test_a_missing_core_is_a_named_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "escapement._C", None)
    with pytest.warns(RuntimeWarning, match="no_core.*dev build"):
        assert torch.equal(torch.compile(lambda x: x * 2, backend="escapement")(torch.ones(3)), torch.full((3,), 2.0))


# --- registration

def test_no_import_is_needed(child_env):
    code = textwrap.dedent("""
        import importlib, os, sys, torch
        if os.environ["USE_STAND_IN"]:
            sys.modules["escapement._C"] = importlib.import_module("fake_c")
        assert "escapement" in torch.compiler.list_backends()
        assert "escapement.backend" not in sys.modules
        assert torch.equal(torch.compile(lambda x: x + 1, backend="escapement")(torch.ones(3)), torch.full((3,), 2.0))
        assert "escapement.backend" in sys.modules
    """)
    subprocess.run([sys.executable, "-c", code], check=True, env=child_env)


FIRST_IN_THREADS = """
    import importlib, os, sys, threading, torch
    from importlib.metadata import entry_points
    if os.environ["USE_STAND_IN"]:
        sys.modules["escapement._C"] = importlib.import_module("fake_c")
    gate, failed = threading.Barrier(6), []

    def first(number):
        gate.wait()
        try:
            compiled = torch.compile(lambda x: x * number, backend="escapement")
            assert torch.equal(compiled(torch.ones(number)), torch.full((number,), float(number)))
        except BaseException as error:
            failed.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=first, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
    from escapement.backend import escapement
    assert torch._dynamo.lookup_backend("escapement") is escapement
    assert {point.load() for point in entry_points(group="torch_dynamo_backends", name="escapement")} == {escapement}
"""


@pytest.mark.parametrize("attempt", range(3))
def test_the_first_compile_in_several_threads_at_once(child_env, attempt):
    subprocess.run([sys.executable, "-c", textwrap.dedent(FIRST_IN_THREADS)], check=True, env=child_env)


# --- the other routes

@pytest.fixture
def route():
    from escapement.steering import dynamo

    def force(name):
        dynamo.install(dynamo.state["backend"], name)

    yield force
    force("recipe")


def test_the_restart_route_compiles_once_too(route):
    route("restart")

    def restarted(x, y):
        return x * 2 + y

    seen = run_all(restarted, [(torch.randn(n, 3), torch.randn(n, 3)) for n in (5, 7, 2)])
    assert (seen["compiles"], seen["specialised_dims"]) == (1, 0)


def test_the_stock_route_is_static_first(route):
    route("stock")

    def stock(x):
        return x * 5

    assert run_all(stock, vectors(5, 6, 7))["compiles"] == 2


def test_this_torch_has_the_recipe():
    from escapement.steering import dynamo

    assert dynamo.state["route"] == "recipe" and dynamo.restart_possible()


# --- training

def gradients(model, run, inputs):
    model.zero_grad()
    output = run(**inputs)
    output = output if isinstance(output, torch.Tensor) else output.last_hidden_state
    (output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum().backward()
    return output.detach(), [p.grad.clone() for p in model.parameters() if p.grad is not None]


def check_training(model, calls, tolerance):
    compiled = torch.compile(model, backend="escapement")
    for inputs in calls:
        expected, wanted = gradients(model, model, inputs)
        found, got = gradients(model, compiled, inputs)
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
        assert len(wanted) == len(got) > 0
        for a, b in zip(got, wanted):
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
    return counters()


def test_training_of_an_mlp():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 4))
    seen = check_training(model, [{"input": torch.randn(n, 8)} for n in (5, 7, 3)], 1e-6)
    assert seen["compiles"] == 1 and not seen["fallbacks"]
    names = [region.info()["name"] for f in LEDGER.functions() for region in f.regions()]
    assert len(names) == 2


@pytest.mark.filterwarnings("ignore:escapement runs a graph eagerly .higher_order_operator")
def test_training_with_checkpointing_and_dropout_matches_eager():
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    layer = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5))

    def body(x):
        return checkpoint(layer, x, use_reentrant=False).sin()

    def step(fn):
        x = torch.ones(4, 8, requires_grad=True)
        torch.manual_seed(1)
        fn(x).sum().backward()
        return x.grad

    torch.testing.assert_close(step(torch.compile(body, backend="escapement")), step(body))


def test_checkpointing_is_right_when_disabled_too(monkeypatch):
    monkeypatch.setenv("ESCAPEMENT_DISABLE", "1")
    test_training_with_checkpointing_and_dropout_matches_eager()


def test_training_of_bert():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
                                     vocab_size=50, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = transformers.BertModel(config, add_pooling_layer=False)
    calls = [{"input_ids": torch.randint(0, 50, shape)} for shape in ((2, 7), (3, 9))]
    seen = check_training(model, calls, 1e-5)
    assert seen["compiles"] == 1 and not seen["fallbacks"]


# --- bindings, lines, report

def test_bindings_of_a_graph_with_products_and_sums(fake):
    def body(x, y):
        return torch.cat([x, y]).reshape(-1) * 2

    run_all(body, [(torch.randn(a, 3), torch.randn(b, 3)) for a, b in ((2, 5), (4, 1), (3, 3))])


def test_expressions():
    import sympy

    from escapement.steering.bindings import Symbols, dim

    s, t, free = (sympy.Symbol(name, integer=True) for name in "stu")
    symbols = Symbols()
    assert dim(sympy.Integer(7), symbols) == 7
    assert (symbols.bind(s), symbols.bind(t)) == (0, 1)
    assert dim(s, symbols) == ("sym", 0)
    assert dim(s * t + 2, symbols) in [("add", ("mul", ("sym", 0), ("sym", 1)), 2), ("add", 2, ("mul", ("sym", 0), ("sym", 1)))]
    assert dim(s ** 2, symbols) == ("mul", ("sym", 0), ("sym", 0))
    assert dim(-s, symbols) == ("neg", ("sym", 0))
    assert dim(sympy.sin(s), symbols) == ("sym", 2) == dim(sympy.sin(s), symbols)      # a symbol of its own
    assert dim(free * 2, symbols) == ("sym", 3)                                        # nothing binds it


def test_the_locator_finds_the_users_line(fake, monkeypatch):
    lines = []
    run = fake.Region.__call__

    def call(self, *args):
        class Watch(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                lines.append(region.locator.text(region.locator()))
                return func(*args, **(kwargs or {}))

        region = self
        with Watch():
            return run(self, *args)

    monkeypatch.setattr(fake.Region, "__call__", call)

    def body(x):
        y = x * 2
        return y.sin()

    torch.compile(body, backend="escapement")(torch.randn(3))
    first = body.__code__.co_firstlineno
    assert [line.split("/")[-1] for line in lines] == [f"test_dynamo_recipe.py:{first + n} in body" for n in (1, 2)]


def test_explain_is_stable_text(fake):
    def pointwise(x, y):
        return x * 2 + y

    report = escapement.explain(pointwise)(torch.randn(5), torch.randn(5))
    where = f"test_dynamo_recipe.py:{pointwise.__code__.co_firstlineno}"
    text = re.sub(r"\[\d+/\d+\]", "[0/0]", re.sub(r"at \S*test_dynamo_recipe.py.*", "at PLACE", str(report)))
    assert text == textwrap.dedent(f"""\
        function test_explain_is_stable_text.<locals>.pointwise ({where})
          compile 1 of 3: 2 of 2 input dims are dynamic
            guard: L['x'].size(0) == L['y'].size(0) at PLACE
          region pointwise [0/0]: 1 recordings, 1 versions
            version 0: 1 ops, 0 kernels, 0 calls, 0 hits
              symbol s0: L['y'].size(0)
        """)
    assert report.result.shape == (5,) and '"input_dims": 2' in report.to_json()


def test_explain_names_escapes_and_pinned_dims():
    report = str(escapement.explain(chain)(torch.randn(3)))
    assert "escape: " in report and "from L['x'].size(0)" in report
    weight = torch.randn(8, 4)
    report = str(escapement.explain(lambda x: x @ weight)(torch.randn(3, 8)))
    assert "not compiled" not in report


# --- globals

SCALE = 2.5


def test_a_global_number_is_a_constant_until_it_changes(monkeypatch):
    def body(x):
        return x * SCALE

    compiled = torch.compile(body, backend="escapement")
    with torch.no_grad():
        for scale in (2.5, 2.5, 3.5, 4.5, 5.5):
            monkeypatch.setitem(globals(), "SCALE", scale)
            assert torch.equal(compiled(torch.ones(3)), torch.full((3,), scale))
    assert counters()["compiles"] == 2   # as a constant, then as an input
