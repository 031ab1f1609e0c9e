"""What torch.compile, torch.compiler and torch._dynamo offer besides a backend's name: markings of dims, stances, decorators, filters of guards, copies of compiled
modules, configurations. Each row gives with this backend what it gives with torch's `eager`."""

import copy
import functools
import io
import pickle

import pytest
import torch
import torch.nn.functional as F
from documented import run_examples
from torch import nn

import escapement

pytestmark = pytest.mark.usefixtures("fresh")

ROWS, SIZES = {}, (3, 5, 1, 2, 7)
dynamo = torch._dynamo.config.patch


def row(function):
    ROWS[function.__name__] = function
    return function


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 6))


def data(rows):
    return torch.randn(rows, 6, generator=torch.Generator().manual_seed(rows))


def scaled(x):
    return F.gelu(x) * x.shape[0] + x.sum(0, keepdim=True)


def outcome(call, *args):
    try:
        return call(*args)
    except Exception as error:
        return type(error).__name__


def called(function, sizes=SIZES):
    return [outcome(function, data(rows)) for rows in sizes]


def trained(function, model):
    results = []
    for rows in SIZES:
        x = data(rows).requires_grad_()
        model.zero_grad()
        y = function(x)
        y.square().sum().backward()
        results += [y, x.grad, *(parameter.grad.clone() for parameter in model.parameters())]
    return results


def marked(mark, sizes=SIZES):
    def run(compiled):
        function = compiled(scaled)

        def call(rows):
            x = data(rows)
            mark(x)
            return function(x)

        return [outcome(call, rows) for rows in sizes]

    return run


decorators = torch._dynamo.decorators
ROWS["mark_dynamic"] = marked(lambda x: torch._dynamo.mark_dynamic(x, 0), (3, 5, 2, 7))
ROWS["mark_dynamic at 1"] = marked(lambda x: torch._dynamo.mark_dynamic(x, 0), (1,))
ROWS["mark_dynamic in a range"] = marked(lambda x: torch._dynamo.mark_dynamic(x, 0, min=2, max=6), (3, 5))
ROWS["maybe_mark_dynamic"] = marked(lambda x: torch._dynamo.maybe_mark_dynamic(x, (0, 1)))
ROWS["mark_static"] = marked(lambda x: torch._dynamo.mark_static(x, 0))
ROWS["mark_static_address"] = marked(torch._dynamo.mark_static_address)
ROWS["mark_unbacked"] = marked(lambda x: decorators.mark_unbacked(x, 0))
for filtered in ("keep_tensor_guards_unsafe", "skip_guard_on_inbuilt_nn_modules_unsafe", "skip_guard_on_globals_unsafe"):
    ROWS[filtered] = lambda compiled, filtered=filtered: called(compiled(network(), options={"guard_filter_fn": getattr(torch.compiler, filtered)}))
ROWS["no guards at all"] = lambda compiled: called(compiled(network(), options={"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}), (3, 3, 3))


@row
def marked_dynamic_and_made_constant(compiled):
    """What torch raises then is the user's to know."""
    function, results = compiled(lambda x: x * 2 if x.shape[0] == 3 else x * 3), []
    for rows in (3, 5):
        x = data(rows)
        torch._dynamo.mark_dynamic(x, 0)
        results.append(outcome(function, x))
    return results


def under(stance):
    def run(compiled):
        model = network()
        function = compiled(model)
        with torch.compiler.set_stance(stance):
            results = trained(function, model)
        return results + called(function)

    return run


for stance in ("force_eager", "eager_on_recompile", "eager_then_compile", "aot_eager_then_compile"):
    ROWS[stance] = under(stance)


@row
def unchecked_guards(compiled):
    function = compiled(network())
    results = called(function, (3, 5, 4))
    with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
        return results + called(function, (4, 6, 9))


@row
def another_backend_meanwhile(compiled):
    function = compiled(network())
    results = called(function, (3, 5))
    with torch.compiler.set_stance("default", force_backend="eager"):
        results += called(function, (4, 1))
    return results + called(function, (8, 1))


@row
def a_disabled_function(compiled):
    def inner(x):
        return x + len(x)

    results = []
    for disable in (torch.compiler.disable, functools.partial(torch.compiler.disable, recursive=False), functools.partial(torch.compiler.disable, reason="a test")):
        hidden = disable(inner)
        results += called(compiled(lambda x: hidden(x * 2) * 2 + x.shape[0]))  # noqa: B023
    return results


@row
def a_disabled_module(compiled):
    model = network()
    model[1] = torch.compiler.disable(model[1])
    return called(compiled(model))


@row
def constant_result(compiled):
    seven = torch._dynamo.assume_constant_result(lambda: 7)
    return called(compiled(lambda x: x * seven()))


@row
def allowed_in_graphs(compiled):
    inside = torch.compiler.allow_in_graph(lambda x: x * 2 if x.shape[0] > 2 else x.sin())
    model = network()
    return called(compiled(lambda x: inside(x) + 1)) + trained(compiled(lambda x: inside(model(x)) + 1), model)


@row
def traced_without_strictness(compiled):
    inside = torch._dynamo.nonstrict_trace(lambda x: x * 2 + x.shape[0])
    return called(compiled(lambda x: inside(x) + 1))


@row
def breaks_are_errors(compiled):
    def function(x):
        with torch._dynamo.error_on_graph_break(True):
            y = scaled(x)
        torch._dynamo.graph_break()
        return y * 2

    return called(compiled(function))


@row
def copied(compiled):
    model = compiled(network())
    results = called(model)
    other = copy.deepcopy(model)
    with torch.no_grad():
        other._orig_mod[0].weight.mul_(2)
    return results + called(model) + called(other)


@row
def copied_after_its_compile_method(compiled):
    model = network()
    model.compile(backend=compiled.keywords["backend"])
    results = called(model)
    other = copy.deepcopy(model)
    with torch.no_grad():
        other[0].weight.mul_(2)
    return results + called(model) + called(other)


@row
def pickled(compiled):
    model = compiled(network())
    results = called(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return results + called(pickle.loads(pickle.dumps(model))) + called(torch.load(file, weights_only=False))


@row
def two_lives(compiled):
    function = compiled(network())
    results = called(function)
    torch._dynamo.reset()
    results += called(function)
    torch.compiler.reset()
    return results + called(function)


@row
def run_only(compiled):
    function = compiled(scaled)
    return called(function) + called(torch._dynamo.run(function))


@row
def compiled_again(compiled):
    return called(compiled(compiled(scaled)))


@row
def compiled_autograd(compiled):
    model = network()
    model[0].weight.register_hook(lambda grad: grad * 2)
    with torch._dynamo.compiled_autograd._enable(compiled.func(backend=compiled.keywords["backend"])):
        results = trained(model, model)
    with dynamo(compiled_autograd=True):
        return results + trained(compiled(model), model)


@row
def compiled_autograd_inside(compiled):
    """Dynamo is asked then for frames of torch's own, too, among them the one that makes a fake tensor."""
    model = network()

    def step(x):
        loss = model(x).square().mean()
        loss.backward()
        return loss

    with dynamo(compiled_autograd=True):
        stepped, results = compiled(step), []
        for rows in SIZES:
            model.zero_grad()
            results += [stepped(data(rows)), *(parameter.grad.clone() for parameter in model.parameters())]
        return results


class Half(torch.Tensor):
    """Answers for its own device, which it cannot before it is whole."""

    @staticmethod
    def __new__(cls, data):
        made = torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=data.dtype, device=data.device)
        made.data_inside = data
        return made

    device = property(lambda self: self.data_inside.device)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*[each.data_inside if isinstance(each, cls) else each for each in args], **kwargs or {})


@row
def half_made_tensors(compiled):
    return called(compiled(lambda x: Half(x) * 2 + x.shape[0]))


@row
def while_loop(compiled):
    from torch._higher_order_ops import while_loop as loop

    counted = compiled(lambda x: loop(lambda i, a: i < x.shape[0], lambda i, a: (i + 1, a * 2 + i), (torch.tensor(0), x.sum(0)))[1])
    until = compiled(lambda x: loop(lambda a: a.sum().abs() < 100, lambda a: (a * 2,), (x + 0.1,))[0])
    return called(counted) + called(until)


@row
def counted_compiles(compiled):
    return called(torch.compile(scaled, backend=torch._dynamo.testing.CompileCounterWithBackend(compiled.keywords["backend"])))


def configured(**settings):
    def run(compiled):
        def numbered(x, n):
            x.add_(n)
            return (x.relu() * n, x.shape[0] * 2) if x.shape[0] > 4 else (x - n, x.shape[0])

        model, results = network(), []
        with dynamo(**settings):
            results += trained(compiled(model), model)
            function = compiled(numbered)
            with torch.no_grad():
                for n, rows in enumerate(SIZES):
                    x = data(rows)
                    results += [*function(x, n + 1), x]
        return results

    return run


for setting in ("replay_record_enabled", "specialize_int", "assume_static_by_default", "automatic_dynamic_shapes",
                "capture_scalar_outputs", "guard_nn_modules", "enable_cpp_guard_manager", "caching_precompile", "skip_no_tensor_aliasing_guards_on_parameters"):
    ROWS[setting] = configured(**{setting: not getattr(torch._dynamo.config, setting)})
ROWS["reproduced after dynamo"] = configured(repro_after="dynamo", repro_level=4)
ROWS["reproduced after aot"] = configured(repro_after="aot", repro_level=4)
ROWS["one recompile"] = configured(recompile_limit=1)


@pytest.mark.parametrize("name", ROWS)
def test_as_with_torchs_eager(name):
    results = []
    for backend in ("eager", "escapement"):
        torch.compiler.reset()
        torch.manual_seed(1)
        results.append(ROWS[name](functools.partial(torch.compile, backend=backend)))
    assert len(results[0]) == len(results[1])
    for number, (wanted, given) in enumerate(zip(*results)):
        if isinstance(wanted, torch.Tensor):
            torch.testing.assert_close(given, wanted, rtol=2e-4, atol=2e-5, msg=lambda text: f"result {number}: {text}")  # noqa: B023
        else:
            assert given == wanted, number


@pytest.mark.parametrize("mode", torch._inductor.list_mode_options())
def test_modes(mode):
    assert all(isinstance(result, torch.Tensor) for result in called(torch.compile(scaled, backend="escapement", mode=mode)))
    assert escapement.stats()["launches"]


def test_no_size_is_a_recompile():
    function = torch.compile(network(), backend="escapement")
    results = called(function, (3, 5, 1))
    with torch.compiler.set_stance("fail_on_recompile"):
        results += called(function, (4, 6, 1, 2))
    assert all(isinstance(result, torch.Tensor) for result in results)


def test_example_inputs_of_torchs_own_are_no_call():
    """Dynamo tries a graph with its own symbols for the integers: nothing of that may be recorded."""
    with dynamo(verify_correctness=True), torch.no_grad():
        function = torch.compile(lambda x, n: x * n, backend="escapement")
        for n in (1, 2, 5):
            assert function(torch.ones(3), n).tolist() == [n] * 3
    assert escapement.stats()["unsupported_input"] == 1


# --- ahead of time

class Product(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 4)

    def forward(self, x, n):
        return self.linear(x).relu() * n, x.shape[0]


def ahead(function, *args, **settings):
    return torch.compile(function, backend="escapement", fullgraph=True, **settings).aot_compile((args, {}))


def saved_and_loaded(made, path):
    made.save_compiled_function(path)
    torch.compiler.reset()
    with open(path, "rb") as file:
        return torch.compiler.load_compiled_function(file)


@pytest.mark.parametrize("gradients", (False, True))
def test_ahead_of_time(tmp_path, gradients):
    made = ahead(scaled, data(3).requires_grad_(gradients), dynamic=True)
    for function in (made, saved_and_loaded(made, str(tmp_path / "function"))):
        for rows in (3, 5, 7):
            x, y = data(rows).requires_grad_(gradients), data(rows).requires_grad_(gradients)
            given, wanted = function(x), scaled(y)
            torch.testing.assert_close(given, wanted)
            if gradients:
                given.sum().backward()
                wanted.sum().backward()
                torch.testing.assert_close(x.grad, y.grad)
    assert escapement.stats()["launches"] and not escapement.stats().get("eager_calls", 0)


def test_ahead_of_time_what_does_not_fit_raises():
    made = ahead(scaled, data(3))
    torch.testing.assert_close(made(data(3)), scaled(data(3)))
    with pytest.raises(RuntimeError, match="Guard"):
        made(data(5))


def test_modules_ahead_of_time():
    model = Product()
    made = torch.compile(model, backend="escapement", fullgraph=True, dynamic=True).forward.aot_compile(((data(3), 2), {}))
    for rows in (3, 5):
        torch.testing.assert_close(made(model, data(rows), 2), model(data(rows), 2))


def test_the_examples_of_the_page():
    assert run_examples("torch_compile.md") > 5
