"""Under autocast where no gradients are wanted, with weights that require them: recorded once and served by compiled code, with eager's values and
dtypes. Autocast's own cache of casts is neither read nor filled by a recording: no cast of eager's becomes a constant, none of ours stays behind."""

import contextlib
import gc
import weakref

import pytest
import torch
import torch.nn.functional as F

import escapement
from answered import Counted
from harness import seeded

pytestmark = pytest.mark.usefixtures("fresh")


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.out = torch.nn.Linear(8, 24), torch.nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = self.into(x).chunk(3, -1)
        scores = torch.softmax(q @ k.transpose(-2, -1) * 8 ** -0.5, -1)
        return self.out(scores @ v) + x


class Shared(torch.nn.Module):
    """One weight for two products, whose cast eager keeps."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8, 8))

    def forward(self, x):
        return F.linear(torch.tanh(F.linear(x, self.weight)), self.weight) + x @ self.weight.t()


class Frozen(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8).requires_grad_(False), torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def vectors(n):
    return torch.randn(n, 8, generator=seeded(n))


def sequences(n):
    return torch.randn(2, n, 8, generator=seeded(n))


def images(n):
    return torch.randn(n, 3, 6, 6, generator=seeded(n))


MODULES = {
    "linear": (lambda: torch.nn.Linear(8, 4), vectors),
    "conv": (lambda: torch.nn.Conv2d(3, 4, 3, padding=1), images),
    "mlp": (lambda: torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 8), torch.nn.LayerNorm(8)), vectors),
    "attention": (Attention, sequences),
    "one weight twice": (Shared, vectors),
    "in part frozen": (Frozen, vectors),
    "conv and linear": (lambda: torch.nn.Sequential(torch.nn.Conv2d(3, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(32, 5)), images),
}


@contextlib.contextmanager
def autocast(dtype, **options):
    with torch.autocast("cpu", dtype, **options):
        yield


def inside(mode, dtype, **options):
    """The program itself does both."""
    def wrapped(module):
        def program(x):
            with mode(), torch.autocast("cpu", dtype, **options):
                return module(x)
        return program
    return wrapped


def nested(module):
    def program(x):
        with torch.autocast("cpu", torch.bfloat16):
            y = module(x)
            with torch.autocast("cpu", enabled=False):
                z = module(x.float())
            with torch.autocast("cpu", torch.bfloat16):
                return y, z, module(x)
    return program


def mode_inside(module):
    def program(x):
        with torch.no_grad():
            return module(x)
    return program


def plain(module):
    return lambda x: module(x)


# What the caller is in, outermost first, and what the program does.
WAYS = {
    "no_grad, autocast": ([torch.no_grad, lambda: autocast(torch.bfloat16)], plain),
    "autocast, no_grad": ([lambda: autocast(torch.bfloat16), torch.no_grad], plain),
    "float16": ([torch.no_grad, lambda: autocast(torch.float16)], plain),
    "without the cache": ([torch.no_grad, lambda: autocast(torch.bfloat16, cache_enabled=False)], plain),
    "inference_mode": ([torch.inference_mode, lambda: autocast(torch.bfloat16)], plain),
    "autocast twice": ([torch.no_grad, lambda: autocast(torch.bfloat16), lambda: autocast(torch.bfloat16)], plain),
    "autocast twice, once without the cache": ([torch.no_grad, lambda: autocast(torch.bfloat16, cache_enabled=False), lambda: autocast(torch.bfloat16)], plain),
    "autocast inside": ([torch.no_grad], inside(contextlib.nullcontext, torch.bfloat16)),
    "autocast inside, without the cache": ([torch.no_grad], inside(contextlib.nullcontext, torch.bfloat16, cache_enabled=False)),
    "both inside": ([torch.no_grad], inside(torch.no_grad, torch.bfloat16)),
    "autocast twice, one inside": ([torch.no_grad, lambda: autocast(torch.bfloat16)], inside(contextlib.nullcontext, torch.bfloat16)),
    "nested inside": ([torch.no_grad], nested),
    "nested inside of the caller's": ([torch.no_grad, lambda: autocast(torch.bfloat16)], nested),
    "no_grad inside, too": ([torch.no_grad, lambda: autocast(torch.bfloat16)], mode_inside),
}


def tuple_of(result):
    return result if isinstance(result, tuple) else (result,)


def assert_as_eager(got, want):
    for mine, theirs in zip(tuple_of(got), tuple_of(want), strict=True):
        assert mine.dtype == theirs.dtype and mine.requires_grad == theirs.requires_grad and mine.is_inference() == theirs.is_inference()
        rough = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 2e-2}[mine.dtype]
        torch.testing.assert_close(mine, theirs, rtol=rough, atol=rough)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODULES)
def test_recorded_once(name, way):
    make, inputs = MODULES[name]
    torch.manual_seed(0)
    module = make()
    contexts, program_of = WAYS[way]
    program = program_of(module)
    compiled = Counted(program)
    for n in compiled.twice((3, 5, 3, 7, 4)):
        x = inputs(n)
        with contextlib.ExitStack() as stack:
            for context in contexts:
                stack.enter_context(context())
            assert_as_eager(compiled(x), program(x))
    compiled.expect()
    info = compiled.info()
    assert info["recordings"] == 1 and not info["eager"], info


@pytest.mark.parametrize("name", MODULES)
def test_size_one(name):
    make, inputs = MODULES[name]
    torch.manual_seed(0)
    module = make()
    compiled = escapement.jit(module)
    for n in (1, 3, 1, 2, 0):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            assert_as_eager(compiled(inputs(n)), module(inputs(n)))
    assert compiled.info()["recordings"] <= 3 and not compiled.info()["eager"], compiled.info()


@pytest.mark.parametrize("name", MODULES)
def test_with_and_without_gradients_in_turn(name):
    """Where they are wanted eager's tape is made, with the casts that eager keeps for it."""
    make, inputs = MODULES[name]
    torch.manual_seed(0)
    module = make()
    compiled = escapement.jit(module)
    for n in (3, 3, 5):
        for wanted in (False, True, False):
            with torch.set_grad_enabled(wanted), torch.autocast("cpu", torch.bfloat16):
                got, found = compiled(inputs(n)), []
                want = module(inputs(n))
            assert_as_eager(got, want)
            for result in (got, want) if wanted else ():
                module.zero_grad()
                result.float().square().sum().backward()
                found.append([parameter.grad.clone() for parameter in module.parameters() if parameter.requires_grad])
            if wanted:
                torch.testing.assert_close(found[0], found[1], rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("first", ["eager", "ours"])
def test_one_autocast_around_both(first):
    """What ran before in the same block has left its casts, or has not: nobody sees it."""
    torch.manual_seed(0)
    module = torch.nn.Linear(8, 4)
    one, other = escapement.jit(lambda x: module(x)), escapement.jit(lambda x: module(x) * 2)
    with torch.autocast("cpu", torch.bfloat16):
        with torch.no_grad():
            if first == "eager":
                module(vectors(2))
            for n in (3, 3, 5):
                assert_as_eager(one(vectors(n)), module(vectors(n)))
                assert_as_eager(other(vectors(n)), module(vectors(n)) * 2)
        got = module(vectors(3))   # in eager, with gradients, whatever was kept before
        assert type(got.grad_fn).__name__ == "AddmmBackward0"
        got.float().sum().backward()
        assert module.weight.grad is not None and module.bias.grad.tolist() == [3.0] * 4
    assert one.info()["recordings"] == other.info()["recordings"] == 1 and not one.info()["eager"] and not other.info()["eager"]


def test_no_cast_becomes_a_constant():
    """A cast that eager had kept was taken for a tensor of the program's, and stood in the compiled code after the weight had changed."""
    torch.manual_seed(0)
    module = torch.nn.Linear(8, 4)
    compiled = escapement.jit(lambda x: module(x) * 2)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        module(vectors(3))
        compiled(vectors(3))
    for step in range(4):
        with torch.no_grad():
            module.weight.add_(1)
            if step == 2:
                module.bias.copy_(torch.ones(4))
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            assert_as_eager(compiled(vectors(3 + step)), module(vectors(3 + step)) * 2)
    assert compiled.info()["recordings"] == 1 and not compiled.info()["eager"], compiled.info()


def test_no_cast_of_a_recording_stays_behind():
    module = torch.nn.Linear(8, 4)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        compiled = escapement.jit(lambda x: module(x))
        x = vectors(3)
        compiled(x)
        gone = weakref.ref(x)
        del x, compiled
        gc.collect()
        assert gone() is None
        for n in (3, 1):
            assert type(module(vectors(n))) is torch.Tensor
    assert torch.is_autocast_cache_enabled()


@pytest.mark.parametrize("cache", [True, False])
def test_the_cache_stays_switched_as_it_was(cache):
    module = torch.nn.Linear(8, 4)
    seen = []

    def program(x):
        seen.append(torch.is_autocast_cache_enabled())
        y = module(x)
        seen.append(torch.is_autocast_cache_enabled())
        return y

    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, cache_enabled=cache):
        escapement.jit(program)(vectors(3))
        assert torch.is_autocast_cache_enabled() is cache
    assert set(seen) == {cache} and torch.is_autocast_cache_enabled()


def test_nor_when_an_operator_raises():
    module = torch.nn.Linear(8, 4)
    compiled = escapement.jit(lambda x: module(x))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        with pytest.raises(RuntimeError):
            compiled(torch.ones(3, 5))
        assert torch.is_autocast_cache_enabled()
        assert_as_eager(compiled(vectors(3)), module(vectors(3)))


def test_gradients_that_the_program_switches_on():
    """It is the program's own doing there, and a tape is wanted."""
    torch.manual_seed(0)
    module = torch.nn.Linear(8, 4)

    def program(x):
        with torch.enable_grad():
            return module(x)

    compiled = escapement.jit(program)
    for n in (3, 3, 1):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            got, want = compiled(vectors(n)), program(vectors(n))
        assert got.requires_grad and type(got.grad_fn) is type(want.grad_fn)
        torch.testing.assert_close(got, want)
    assert set(compiled.info()["regions"][0]["fallbacks"]) == {"gradient"}, compiled.info()


def test_compiled_by_dynamo():
    torch.manual_seed(0)
    module = Attention()
    compiled = torch.compile(module, backend="escapement", dynamic=True)
    for n in (3, 5, 7, 4):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            assert_as_eager(compiled(sequences(n)), module(sequences(n)))


@pytest.mark.parametrize("name", MODULES)
def test_in_replay_mode(name):
    make, inputs = MODULES[name]
    torch.manual_seed(0)
    module = make()
    compiled = escapement.jit(module, mode="replay")
    for n in (3, 3, 1, 5, 3):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            assert_as_eager(compiled(inputs(n)), module(inputs(n)))
