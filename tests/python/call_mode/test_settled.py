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
