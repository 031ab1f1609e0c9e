"""Functions that go on in replay mode, where they themselves run: after 32 such calls in a row they are not recorded any more."""

import numpy
import pytest
import torch

import escapement

KEPT = []
NUMBERS = numpy.arange(6, dtype=numpy.float32)


def appends(x):
    KEPT.append((x * 2).mean().item())
    return x + KEPT[-1]


def prints(x):
    f"{x.sum().item():.3f}"
    return x * 2 + 1


def borrowed(x):
    return torch.from_numpy(NUMBERS) + torch.softmax(x, -1)


PROGRAMS = {"appends": (appends, "state_changed"), "prints": (prints, "too_many_recordings"), "borrowed": (borrowed, "made_unseen")}


def made(call):
    return torch.randn(2 + call % 3, 6, generator=torch.Generator().manual_seed(call))


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_call_is_eagers_and_counted(name):
    program, reason = PROGRAMS[name]
    escapement.reset()
    jitted, calls = escapement.jit(program), 90
    for call in range(calls):
        ours, theirs = made(call), made(call)
        result, expected = jitted(ours), program(theirs)
        torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
        assert result.stride() == expected.stride()
        assert torch.equal(ours, theirs) and ours.shape == theirs.shape
    assert reason in jitted.info()["eager"]
    assert jitted.info()["eager"][reason] >= calls - 50   # straight to replay mode, without asking a region
    assert "replay mode: " in str(escapement.explain(jitted)(made(0)))
    recorded = escapement.stats()["recordings"]
    for call in range(20):
        jitted(made(call))
    assert escapement.stats()["recordings"] == recorded


def test_calls_that_are_served_keep_a_function_recorded():
    def program(x, flag):
        if flag:
            KEPT.append(x.shape[0])
        return torch.softmax(x, -1) * 2

    jitted = escapement.jit(program)
    for call in range(200):
        flag = call % 20 != 0
        torch.testing.assert_close(jitted(made(call), flag), program(made(call), flag))
    escapement.reset()
    jitted(made(0), False)
    assert escapement.stats().get("recordings", 0) <= 1


class Counting(torch.nn.Module):
    calls = 0

    def forward(self, x):
        if self.training:
            self.calls += 1
        return torch.tanh(x) * 2


def test_another_training_flag_begins_anew():
    module = Counting()
    jitted = escapement.jit(module)
    for call in range(60):
        torch.testing.assert_close(jitted(made(call)), torch.tanh(made(call)) * 2)
    assert module.calls == 60 and jitted.info()["eager"]["state_changed"] > 50
    module.eval()
    escapement.reset()
    for call in range(10):
        jitted(made(call))
    assert module.calls == 60 and escapement.stats()["hits"] >= 9


def test_clear_begins_anew():
    jitted = escapement.jit(prints)
    for call in range(60):
        jitted(made(call))
    jitted.clear()
    escapement.reset()
    jitted(made(0))
    assert escapement.stats()["recordings"] >= 1


def changes_by_number(x, rate):
    x.add_(torch.nn.functional.softshrink(x.detach().clone(), rate))   # a number that stands in the operator: each is another recording


def goes_new_ways(x):
    x.mul_(1.0)
    for place in range(x.shape[0]):
        if x[place] > 0:
            x[place] *= 2
    return x + 1


SELDOM = {"numbers in turn": lambda call: (changes_by_number, (0.5 / (call % 9 + 1),), 5), "ways": lambda call: (goes_new_ways, (), 1 if call % 8 == 0 else 8)}


@pytest.mark.parametrize("name", SELDOM)
def test_a_call_that_is_served_now_and_then_does_not_keep_it_recording(name):
    jitted, kinds, late = escapement.jit(SELDOM[name](0)[0]), SELDOM[name], []
    for call in range(900):
        program, numbers, length = kinds(call)
        ours, theirs = (torch.randn(length, generator=torch.Generator().manual_seed(call)) for _ in range(2))
        if call == 700:
            escapement.reset()
        result, expected = jitted(ours, *numbers), program(theirs, *numbers)
        assert torch.equal(ours, theirs) and (expected is None or torch.equal(result, expected))
    found = escapement.stats()
    assert found.get("side_traces", 0) == 0 and found.get("recordings", 0) <= 12, (found, jitted.info()["eager"])
    assert "replay mode: " in str(escapement.explain(jitted)(*[torch.randn(8), *kinds(0)[1]]))


class Keeping(torch.nn.Module):
    kept = None

    def forward(self, x):
        self.kept = x * 2
        return self.kept + 1


def test_what_changes_at_each_call_is_not_searched_at_each_call(monkeypatch):
    from escapement.tracer import jitted as front

    module, eager, searches = Keeping(), Keeping(), []
    jitted = escapement.jit(module)
    for call in range(40):
        torch.testing.assert_close(jitted(made(call)), eager(made(call)))
    watch = front.Watch
    monkeypatch.setattr(front, "Watch", lambda fn: searches.append(fn) or watch(fn))
    for call in range(20):
        torch.testing.assert_close(jitted(made(call)), eager(made(call)))
        assert torch.equal(module.kept, eager.kept)
    assert searches == []
