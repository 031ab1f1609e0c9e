"""A program that changes torch's own state: seeds, default dtype, modes, flags. A call of it does what eager's does, to its results and
to all of that state, at every size, in every mode. The tables are everything of torch that a program can change; what becomes of a row
(recorded, or noticed and run by the host) is asked of the counters.
"""

import pytest
import torch

import escapement
from escapement.tracer import jit_entry  # noqa: F401  (the package's own imports are no part of a test)
from world_state import OWN, flushes, put_back, seen, untouched

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]

SIZES = (3, 21, 3, 0, 1, 5)


@pytest.fixture(autouse=True)
def flags_may_change(monkeypatch):
    """PyTorch's own test modules, which other tests here import, forbid it for the whole process."""
    monkeypatch.setitem(torch.backends.flags_frozen.__globals__, "__allow_nonbracketed_mutation_flag", True)


@pytest.fixture(autouse=True)
def autocast_is_left():
    """Programs here enter it and stay: its cache would live on, and eager have stale casts in later tests."""
    torch.autocast_increment_nesting()
    before = torch.autocast_decrement_nesting()
    yield
    torch.autocast_increment_nesting()
    while torch.autocast_decrement_nesting() > before:
        pass
    torch.clear_autocast_cache()


def program(*lines):
    """A function of x from its lines."""
    names = {"torch": torch, "OWN": OWN, "functional": torch.nn.functional}
    exec("def run(x):\n" + "".join(f"    {line}\n" for line in lines), names)
    return names["run"]


DRAW, AGAIN = "y = x + torch.rand(x.shape[0])", "y = y + torch.rand(x.shape[0])"
MINE = "y = x + torch.rand(x.shape[0], generator=OWN)"

# What is recorded: later calls do not run the program.
RECORDED = {
    "draws": program(DRAW, "return y"),
    "draws twice": program(DRAW, AGAIN, "return y"),
    "draws from a generator of its own": program(MINE, "return y"),
    "draws from both": program(MINE, AGAIN, "return y"),
    "no_grad inside": program("with torch.no_grad():", "    y = x + 1", "return y"),
    "inference mode inside": program("with torch.inference_mode():", "    y = x + 1", "return y"),
    "autocast inside": program("with torch.autocast('cpu', torch.bfloat16):", "    y = x.view(1, -1) @ x.view(-1, 1)", "return y"),
    "kind of attention inside": program("with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):",
                                        "    q = x.view(1, 1, -1, 1)", "    y = functional.scaled_dot_product_attention(q, q, q)", "return y"),
}

# What only the host can do: no call is served by a recording.
CHANGES = {
    "manual_seed": program("torch.manual_seed(7)", DRAW, "return y"),
    "manual_seed at the end": program(DRAW, "torch.manual_seed(7)", "return y"),
    "manual_seed in between": program(DRAW, "torch.manual_seed(7)", AGAIN, "return y"),
    "manual_seed without a draw": program("torch.manual_seed(7)", "return x + 1"),
    "manual_seed of a size": program("torch.manual_seed(x.shape[0])", DRAW, "return y"),
    "seed of the generator": program("torch.default_generator.manual_seed(7)", DRAW, "return y"),
    "set_rng_state": program("state = torch.get_rng_state()", DRAW, "torch.set_rng_state(state)", "return y"),
    "set_rng_state in between": program("state = torch.get_rng_state()", DRAW, "torch.set_rng_state(state)", AGAIN, "return y"),
    "fork_rng": program("with torch.random.fork_rng():", "    " + DRAW, "return y"),
    "fork_rng with a seed": program("with torch.random.fork_rng():", "    torch.manual_seed(3)", "    " + DRAW, AGAIN, "return y"),
    "new generator": program("g = torch.Generator()", "return x + torch.rand(x.shape[0], generator=g)"),
    "new seeded generator": program("g = torch.Generator().manual_seed(5)", "return x + torch.rand(x.shape[0], generator=g)"),
    "own generator seeded": program("OWN.manual_seed(3)", MINE, "return y"),
    "own generator seeded at the end": program(MINE, "OWN.manual_seed(3)", "return y"),
    "own generator seeded without a draw": program("OWN.manual_seed(3)", "return x + 1"),
    "own generator set": program("state = OWN.get_state()", MINE, "OWN.set_state(state)", "return y"),
    "own generator copied": program("g = OWN.clone_state()", "return x + torch.rand(x.shape[0], generator=g)"),
    "default dtype": program("torch.set_default_dtype(torch.float64)", "return x + torch.rand(x.shape[0])"),
    "default dtype inside": program("torch.set_default_dtype(torch.float64)", "y = torch.rand(x.shape[0])",
                                    "torch.set_default_dtype(torch.float32)", "return y"),
    "default tensor type": program("torch.set_default_tensor_type(torch.DoubleTensor)", "return x + torch.zeros(1)"),
    "default device": program("torch.set_default_device('cpu')", "return x + torch.rand(x.shape[0])"),
    "threads": program("torch.set_num_threads(1)", "return x + 1"),
    "deterministic": program("torch.use_deterministic_algorithms(True)", "return x + 1"),
    "deterministic inside": program("torch.use_deterministic_algorithms(True)", "y = torch.empty(x.shape[0])",
                                    "torch.use_deterministic_algorithms(False)", "return y"),
    "deterministic, warnings only": program("torch.use_deterministic_algorithms(True, warn_only=True)", "return x + 1"),
    "fill": program("torch.utils.deterministic.fill_uninitialized_memory = False", "return x + 1"),
    "denormals": program("torch.set_flush_denormal(True)", "return x * 1e-39"),
    "denormals inside": program("torch.set_flush_denormal(True)", "y = x * 1e-39", "torch.set_flush_denormal(False)", "return y"),
    "denormals inside, back": program("y = x * 1e-39", "torch.set_flush_denormal(True)", "z = y * 2", "torch.set_flush_denormal(False)",
                                      "return y, z, z * 2"),
    "denormals inside, in a library": program("torch.set_flush_denormal(True)", "y = (x * 1e-39).cumsum(0)",
                                              "torch.set_flush_denormal(False)", "return y"),
    "autocast": program("torch.autocast('cpu', torch.bfloat16).__enter__()", "return x.view(1, -1) @ x.view(-1, 1)"),
    "autocast switched on": program("torch.set_autocast_enabled('cpu', True)", "return x + 1"),
    "autocast's dtype": program("torch.set_autocast_dtype('cpu', torch.float16)", "return x + 1"),
    "autocast's cache": program("torch.set_autocast_cache_enabled(False)", "return x + 1"),
    "gradients on": program("torch.set_grad_enabled(True)", "return x + 1"),
    "forward gradients": program("torch._C._set_fwd_grad_enabled(False)", "return x + 1"),
    "threads of backward": program("torch._C._set_multithreading_enabled(False)", "return x + 1"),
    "view replay": program("torch._C._set_view_replay_enabled(True)", "return x + 1"),
    "precision": program("torch.set_float32_matmul_precision('medium')", "return x + 1"),
    "precision of a backend": program("torch.backends.mkldnn.matmul.fp32_precision = 'bf16'", "return x + 1"),
    "mkldnn": program("torch.backends.mkldnn.set_flags(False)", "return x + 1"),
    "mkldnn deterministic": program("torch.backends.mkldnn.deterministic = True", "return x + 1"),
    "cudnn": program("torch.backends.cudnn.benchmark = True", "return x + 1"),
    "attention": program("torch.backends.cuda.enable_flash_sdp(False)", "return x + 1"),
    "anomaly": program("torch.autograd.set_detect_anomaly(True)", "return x + 1"),
    "warnings": program("torch.set_warn_always(True)", "return x + 1"),
    "sparse checks": program("torch.sparse.check_sparse_tensor_invariants.enable()", "return x + 1"),
    "hooks": program("torch.autograd.graph.saved_tensors_hooks(abs, abs).__enter__()", "return x + 1"),
    "function mode": program("torch.overrides.BaseTorchFunctionMode().__enter__()", "return x + 1"),
}

# Of Python: noticed, and run by the host.
HOST = {
    "random": program("import random", "return x + random.random()"),
    "printing": program("torch.set_printoptions(precision=2)", "return x + 1"),
}


def outcome(fn, size):
    """What a call in a fresh state gives, and what the state is then."""
    put_back()
    x = torch.arange(float(size), dtype=torch.float32)
    result = fn(x)
    return result, seen()


def same(ours, host):
    for a, b in zip(*(found if isinstance(found, tuple) else (found,) for found in (ours, host)), strict=True):
        assert (a.dtype, a.shape, a.is_inference()) == (b.dtype, b.shape, b.is_inference())
        torch.testing.assert_close(a, b, rtol=2e-6, atol=0, equal_nan=True)


def check(fn, jitted):
    with untouched():
        for size in SIZES:
            (host, after), (ours, after_ours) = outcome(fn, size), outcome(jitted, size)
            assert [name for name in after if after[name] != after_ours[name]] == []
            put_back()
            same(ours, host)


def hits(jitted):
    return sum(version["hits"] for region in jitted.info()["regions"] for version in region["versions"])


@pytest.mark.parametrize("name", RECORDED)
def test_what_is_recorded_leaves_the_state_that_eager_leaves(name):
    jitted = escapement.jit(RECORDED[name])
    check(RECORDED[name], jitted)
    info = jitted.info()
    assert info["eager"] == {} and hits(jitted) >= len(SIZES) - 2, info


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_the_state_is_run_by_the_host(name):
    jitted = escapement.jit(CHANGES[name])
    check(CHANGES[name], jitted)
    info = jitted.info()
    assert hits(jitted) == 0 and info["recordings"] <= 2 * info["keys"], info
    assert "state_changed" in info["eager"] or any("state_changed" in region["fallbacks"] for region in info["regions"]), info


@pytest.mark.parametrize("name", HOST)
def test_what_changes_python_is_run_by_the_host(name):
    jitted = escapement.jit(HOST[name])
    check(HOST[name], jitted)
    assert hits(jitted) == 0 and set(jitted.info()["eager"]) == {"state_not_compared" if name == "printing" else "state_changed"}   # what sets that nobody sees


@pytest.mark.parametrize("name", {**RECORDED, **CHANGES, **HOST})
def test_replay_mode(name):
    fn = {**RECORDED, **CHANGES, **HOST}[name]
    check(fn, escapement.jit(fn, mode="replay"))


@pytest.mark.parametrize("name", ["draws twice", "manual_seed in between", "fork_rng with a seed", "default dtype inside", "denormals inside",
                                  "inference mode inside", "kind of attention inside", "deterministic inside", "new seeded generator"])
def test_through_dynamo(name):
    fn = {**RECORDED, **CHANGES}[name]
    check(fn, torch.compile(fn, backend="escapement"))


def test_a_program_that_raises_after_a_change_is_not_run_again():
    calls = []

    def fails(x):
        calls.append(1)
        torch.set_default_dtype(torch.float64)
        raise ValueError("after the change")

    with untouched():
        with pytest.raises(ValueError, match="after the change"):
            escapement.jit(fails)(torch.ones(3))
        assert calls == [1] and torch.get_default_dtype() == torch.float64


def test_gradients_switched_on_behind_a_write():
    """The program cannot be run again; where nothing requires gradients it need not."""
    fn = program("x.add_(1)", "with torch.enable_grad():", "    y = x - 1", "return y")
    check(fn, escapement.jit(fn))


# --- what a recording has read of the state

STATES = {
    "float64": (lambda: torch.set_default_dtype(torch.float64)),
    "bfloat16": (lambda: torch.set_default_dtype(torch.bfloat16)),
    "deterministic": (lambda: torch.use_deterministic_algorithms(True)),
    "gradients": (lambda: torch.set_grad_enabled(True)),
    "autocast": (lambda: torch.set_autocast_enabled("cpu", True)),
    "denormals": (lambda: torch.set_flush_denormal(True)),
    "mkldnn": (lambda: torch.backends.mkldnn.set_flags(False)),
    "precision": (lambda: torch.set_float32_matmul_precision("medium")),
    "meta": (lambda: torch.set_default_device("meta")),
}
READS = {
    "zeros": program("return torch.zeros(3) + x[:1]"),
    "rand": program("return torch.rand(x.shape[0])"),
    "tensor": program("return torch.tensor(1.5) * x.long()"),
    "integers divided": program("return x.long() / 3"),
    "integers times a number": program("return x.long() * 1.5"),
    "deterministic": program("return x + (1 if torch.are_deterministic_algorithms_enabled() else 2)"),
    "grad": program("return x + (1 if torch.is_grad_enabled() else 2)"),
    "autocast": program("return x + (1 if torch.is_autocast_enabled('cpu') else 2)"),
    "mkldnn": program("return x + (1 if torch.backends.mkldnn.enabled else 2)"),
    "precision": program("return x + len(torch.get_float32_matmul_precision())"),
    "device": program("return x + len(str(torch.get_default_device()))"),
    "default dtype": program("return x + (1 if torch.get_default_dtype() == torch.float32 else 2)"),
    "denormal numbers": program("return x * 1e-39 + 1e-40"),
    "denormal sum": program("return (x * 1e-40).sum()"),
    "product": program("return x.view(1, -1) @ x.view(-1, 1)"),
    "error of deterministic": program("y = torch.zeros(4)", "return y.put_(torch.tensor([0, 1]), torch.tensor([1., 2.])) + x[:1]"),
}


def in_state(enter, fn, size):
    put_back()
    x = torch.arange(1.0, size + 1, dtype=torch.float32, device="cpu")
    enter()
    try:
        return fn(x)
    except RuntimeError as error:
        return str(error)[:60]
    finally:
        put_back()


def same_or_error(ours, host):
    if isinstance(host, str) or isinstance(ours, str):
        assert ours == host
        return
    assert (ours.dtype, ours.shape, ours.device) == (host.dtype, host.shape, host.device)
    if host.device.type != "meta":
        torch.testing.assert_close(ours, host, rtol=1e-2 if host.dtype == torch.bfloat16 else 2e-6, atol=0)


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("name", READS)
def test_a_recording_serves_the_state_that_it_was_made_in(name, mode):
    with untouched():
        for enter in STATES.values():
            jitted = escapement.jit(READS[name], mode=mode)
            for size, state in zip((3, 5, 3, 7), (enter, put_back) * 2):   # recorded in the unusual state
                same_or_error(in_state(state, jitted, size), in_state(state, READS[name], size))


def test_a_version_is_not_made_again_for_a_state_that_comes_back():
    jitted = escapement.jit(READS["deterministic"])
    with untouched():
        for size in (3, 5, 1, 0, 7):
            for state in (put_back, STATES["deterministic"]):
                in_state(state, jitted, size)
    assert jitted.info()["recordings"] == 2


# --- checks inside a program

BEHIND_DRAWS = {
    "new numbers": program("y = torch.rand(x.shape[0], 4)", "sizes = [int(s) for s in y.view(torch.uint8).shape]", "return y"),
    "in place": program("y = torch.empty(x.shape[0], 4).normal_()", "sizes = [int(s) for s in y.view(torch.uint8).shape]", "return y"),
    "a value": program("y = torch.empty(x.shape[0], 4).uniform_()", "return y * 2 if x.sum() > 4 else y * 3"),
}


@pytest.mark.parametrize("name", BEHIND_DRAWS)
def test_numbers_are_not_drawn_twice(name):
    """A check that fails behind a draw must not make the program draw again."""
    fn = BEHIND_DRAWS[name]
    check(fn, escapement.jit(fn))


# --- generators

RANDOM = {
    "rand": lambda x, g: torch.rand(x.shape, generator=g), "randn": lambda x, g: torch.randn(x.shape, generator=g),
    "randint": lambda x, g: torch.randint(0, 9, x.shape, generator=g), "randperm": lambda x, g: torch.randperm(x.shape[0], generator=g),
    "bernoulli": lambda x, g: torch.bernoulli(x.abs().clamp(0, 1), generator=g), "normal": lambda x, g: torch.normal(x, 1.0, generator=g),
    "multinomial": lambda x, g: torch.multinomial(x.abs() + 1, 1, generator=g), "poisson": lambda x, g: torch.poisson(x.abs(), generator=g),
    "binomial": lambda x, g: torch.binomial(x.abs().round(), x.abs().clamp(0, 1), generator=g),
    **{name: (lambda x, g, name=name: getattr(x * 1, name)(generator=g))
       for name in ("normal_", "uniform_", "exponential_", "cauchy_", "log_normal_", "random_", "bernoulli_")},
    "geometric_": lambda x, g: (x * 1).geometric_(0.5, generator=g),
}
LAYERS = {
    "dropout": lambda x: torch.dropout(x, 0.5, True), "dropout in place": lambda x: torch.dropout_(x * 1, 0.5, True),
    "alpha_dropout in place": lambda x: torch.alpha_dropout_(x * 1, 0.5, True),
    "dropout2d": lambda x: torch.nn.functional.dropout2d(x.view(1, -1, 1, 1).expand(1, -1, 2, 3) + 1, 0.5, True),
    "random of nothing yet": lambda x: torch.empty(x.shape[0], 4).random_(0, 9),
    "alpha_dropout": lambda x: torch.alpha_dropout(x, 0.5, True),
    "feature_dropout": lambda x: torch.feature_dropout(x.view(1, -1, 1), 0.5, True), "rrelu": lambda x: torch.rrelu(x - 2, training=True),
    "rand_like": torch.rand_like, "randn_like": lambda x: torch.randn_like(x, dtype=torch.float64), "randint_like": lambda x: torch.randint_like(x, 5),
    "gumbel": lambda x: torch.nn.functional.gumbel_softmax(x, dim=0),
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(*[x.view(1, 1, -1, 1)] * 3, dropout_p=0.5),
    "odd normals": lambda x: torch.randn(1) + torch.randn(1) + x,
}


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("name", RANDOM)
def test_generators_move_as_in_eager(name, mode):
    """Torch's own generator, and one that is an argument: values and states, the half of a pair of normal numbers that is kept, too."""
    fn = RANDOM[name]
    jitted = escapement.jit(fn, mode=mode)
    for generator in (None, torch.Generator()):
        for size in (3, 21, 16, 1, 17) if name == "multinomial" else (0, 3, 21, 16, 0, 1, 17):
            states, results = [], []
            for run in (fn, jitted):
                torch.manual_seed(5)
                if generator is not None:
                    generator.manual_seed(6)
                results.append(run(torch.linspace(0, 2, size), generator))
                states.append((torch.get_rng_state().tolist(), generator and generator.get_state().tolist()))
            assert states[0] == states[1]
            torch.testing.assert_close(*results)
    if mode == "call":
        assert jitted.info()["eager"] == {} and jitted.info()["recordings"] <= 4


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_draw_as_in_eager(name, mode):
    fn = LAYERS[name]
    for sizes in ((3, 21, 16, 1, 17, 0), (0, 3, 1, 21), (1, 3, 0, 21)):
        jitted = escapement.jit(fn, mode=mode)
        for size in sizes:
            states, results = [], []
            for run in (fn, jitted):
                torch.manual_seed(5)
                results.append(run(torch.linspace(0, 2, size)))
                states.append(torch.get_rng_state().tolist())
            assert states[0] == states[1]
            torch.testing.assert_close(*results, equal_nan=True)


def test_denormals_are_flushed_as_the_caller_has_it():
    jitted = escapement.jit(lambda x: x * 1e-3)
    with untouched():
        for flush in (False, True, False, True):
            put_back()
            torch.set_flush_denormal(flush)
            assert flushes() == flush
            for size in (3, 0, 1, 7):
                assert torch.equal(jitted(torch.full((size,), 1e-37)) == 0, torch.full((size,), flush))
    assert jitted.info()["recordings"] == 1
