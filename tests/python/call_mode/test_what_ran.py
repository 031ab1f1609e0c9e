"""Functions that reach what nobody can compare at every call, in code that does not run: they are recorded by what ran (tracer/ran.py). What runs later, because a
size or some state is another, is searched then: every value is eager's, whichever branch is taken when."""

import concurrent.futures
import functools
import itertools
import sys
import threading

import pytest
import torch

import escapement

pytestmark = pytest.mark.usefixtures("fresh")
SETTINGS = {"scale": 2.0, "plain": True, "other": 3.0}
POOL = concurrent.futures.ThreadPoolExecutor(1)
NUMBERS = iter(range(10**9))   # what it gives next nobody can compare


def drawn(x):
    return x + next(NUMBERS) * 0


def scaled(x):
    return x * SETTINGS["scale"]


def loaded(x):
    return x + len([name for name in sys.modules if name == "no such module"])


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.offset, self.mode = torch.nn.Parameter(torch.ones(3)), 1.0, "plain"

    def rare(self, x):
        return drawn(x) + self.offset

    def often(self, x):
        return x * self.weight

    def forward(self, x):
        return self.often(x) if self.mode == "plain" else self.rare(x)


def by_size(x):
    return scaled(x) if x.shape[0] < 5 else drawn(x)


def by_state(x):
    return scaled(x) if SETTINGS["plain"] else drawn(x)


def by_argument(x, rare=False):
    return drawn(x) if rare else scaled(x)


def by_modules(x):
    return scaled(x) if SETTINGS["plain"] else loaded(x)


def calls(fn, jitted, sequence):
    with torch.no_grad():
        for at, (size, change) in enumerate(sequence):
            change()
            x = torch.arange(3.0 * size).reshape(size, 3)
            torch.testing.assert_close(jitted(x), fn(x), msg=lambda text, at=at: f"call {at}: {text}")


def setting(name, value):
    return functools.partial(SETTINGS.__setitem__, name, value)


def nothing():
    pass


SEQUENCES = {
    "sizes": [(n, nothing) for n in (3, 4, 2, 3, 7, 3, 8, 4, 9, 2, 5, 3)],
    "state": [(3, change) for change in (nothing, nothing, nothing, setting("plain", False), nothing, setting("plain", True), nothing, setting("plain", False), setting("plain", True), nothing)],
    "scale": [(3, change) for change in (nothing, nothing, nothing, setting("scale", 5.0), nothing, setting("scale", -1.0), nothing, nothing, setting("scale", 2.0), nothing)],
    "all": [(n, change) for n, change in itertools.product((3, 6, 2), (nothing, setting("plain", False), setting("scale", 7.0), setting("plain", True), setting("scale", 2.0)))],
}


@pytest.fixture(autouse=True)
def as_it_was():
    SETTINGS.update(scale=2.0, plain=True)
    yield
    SETTINGS.update(scale=2.0, plain=True)


@pytest.mark.parametrize("sequence", SEQUENCES)
@pytest.mark.parametrize("fn", [by_size, by_state, by_argument, by_modules], ids=lambda fn: fn.__name__)
def test_values_are_eagers(fn, sequence):
    calls(fn, escapement.jit(fn), SEQUENCES[sequence])


@pytest.mark.parametrize("fn", [by_size, by_argument], ids=lambda fn: fn.__name__)
def test_what_does_not_run_is_no_reason(fn):
    jitted = escapement.jit(fn)
    calls(fn, jitted, [(n, nothing) for n in (3, 4, 2, 3, 4, 1, 3)])
    info = jitted.info()
    assert info["eager"] == {"state_not_compared": 1} and info["recordings"] == 1, info   # the call that was looked at


def test_what_runs_is_one():
    jitted = escapement.jit(drawn)
    calls(drawn, jitted, [(3, nothing)] * 5)
    assert jitted.info()["eager"] == {"state_not_compared": 5} and not jitted.info()["recordings"]


def test_state_of_what_ran_is_compared():
    """Of code that ran in a later recording only, too."""
    jitted = escapement.jit(by_size)
    calls(by_size, jitted, SEQUENCES["scale"] + SEQUENCES["sizes"] + SEQUENCES["scale"])


def test_methods():
    model = Model()
    jitted = escapement.jit(model)

    def becomes(**values):
        return lambda: vars(model).update(values)

    calls(model, jitted, [(3, nothing), (4, nothing), (3, nothing)])
    assert jitted.info()["recordings"] == 1
    calls(model, jitted, [(3, becomes(mode="rare")), (3, nothing), (3, becomes(offset=4.0)), (3, nothing), (3, becomes(mode="plain")), (3, nothing), (2, becomes(mode="rare")), (2, becomes(offset=5.0)), (2, nothing)])


def other_scale(x):
    return x * SETTINGS["other"]


@pytest.mark.parametrize("writes", [False, True])
def test_a_side_of_a_branch_on_data(writes):
    """Behind an exit other code runs than before."""
    def fn(x, rare=False):
        if writes:
            x.add_(1)
        if x.sum() > 100:
            return drawn(x)
        return scaled(x) if x.sum() > 0 else other_scale(x)

    jitted, values = escapement.jit(fn), itertools.cycle((1.0, 2.0, -3.0, 1.5, -2.0, 90.0, -1.5, 4.0))
    with torch.no_grad():
        for scale, other in ((2.0, 3.0), (2.0, 5.0), (4.0, 5.0), (2.0, 3.0)):
            SETTINGS.update(scale=scale, other=other)
            for value in itertools.islice(values, 8):
                ours, theirs = torch.full((3, 2), value), torch.full((3, 2), value)
                torch.testing.assert_close(jitted(ours), fn(theirs))
                assert torch.equal(ours, theirs)


def test_code_that_is_made_at_each_call():
    """Then nothing is ever the same code."""
    def fn(x):
        space = {}
        exec("def made(x):\n    return x * 2", space)
        return space["made"](x) if x.shape[0] < 100 else drawn(x)

    jitted = escapement.jit(fn)
    calls(fn, jitted, [(n, nothing) for n in range(1, 20)])


@pytest.mark.parametrize("how", ["executor", "thread", "profiler"])
def test_code_that_nobody_sees(how):
    """In another thread, or where the program switches the profiler off: what it reads would not be compared."""
    def inner(x):
        return SETTINGS["scale"]

    def fn(x, rare=False):
        if rare:
            return drawn(x)
        found = []
        if how == "executor":
            found = list(POOL.map(inner, [x]))
        elif how == "thread":
            thread = threading.Thread(target=lambda: found.append(inner(x)))
            thread.start()
            thread.join()
        else:
            sys.setprofile(None)
            found.append(inner(x))
        return x * found[0]

    jitted = escapement.jit(fn)
    calls(fn, jitted, SEQUENCES["scale"] + SEQUENCES["sizes"])


def test_gradients_are_not_looked_at():
    x = torch.ones(3, 3, requires_grad=True)
    jitted = escapement.jit(by_argument)
    for _ in range(3):
        jitted(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((3, 3), 6.0))
