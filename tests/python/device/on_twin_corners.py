"""Corners of programs on a device: sharing, `out=`, other modes of compiling, budgets, reports, threads of control. And that the device's memory is closed."""

import subprocess
import sys

import pytest
import torch
from harness import assert_exact
from twin import DEVICE, here

import escapement


def test_the_devices_memory_is_closed_to_the_host():
    """What else would show that no code of the host's works on it?"""
    program = "import twin, ctypes, torch; ctypes.string_at(torch.ones(4).to('twin:0').data_ptr(), 4)"
    done = subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; {program}"], capture_output=True, timeout=300)
    assert done.returncode == -11, done


def test_arguments_that_share_memory():
    def f(a, b):
        a.add_(1)
        return b * 2

    fast = escapement.jit(f)
    for shared in [False, True, True, False]:
        base, own = torch.arange(8.0), torch.arange(8.0)
        there = here(base)
        a, b = (there[:6], there[2:]) if shared else (there[:6], here(own)[2:])
        x, y = (base[:6], base[2:]) if shared else (base[:6], own[2:])
        ours, theirs = fast(a, b), f(x, y)
        assert torch.equal(ours.cpu(), theirs) and torch.equal(there.cpu(), base)


def test_out_arguments():
    fast = escapement.jit(lambda x, out: torch.mul(x, 3, out=out))
    for rows in [2, 5, 1]:
        x, out = torch.randn(rows, 3), here(torch.zeros(rows, 3))
        assert fast(here(x), out) is out
        assert torch.equal(out.cpu(), x * 3)


def test_many_hits_and_machine_code_for_guards():
    fast = escapement.jit(lambda x, y: (x + y)[:, 1:] * x.shape[0])
    for n in list(range(2, 40)) * 3:
        x = torch.randn(n, 3)
        assert torch.equal(fast(here(x), here(x)).cpu(), (x + x)[:, 1:] * n)
    assert fast.info()["recordings"] == 1


@pytest.mark.parametrize("options", [{"compile": "background"}, {"check": "always"}, {"fuse": False}, {"max_ops_per_kernel": 2}], ids=str)
def test_options(options):
    def f(x):
        return (x.exp() * 2 - 1).sum(0)

    fast = escapement.jit(f, **options)
    for rows in [3, 5, 2, 4, 3]:
        x = torch.randn(rows, 4)
        torch.testing.assert_close(fast(here(x)).cpu(), f(x))


def test_calls_beyond_the_budget_run_eagerly_and_not_in_replay_mode():
    def f(x):
        for _ in range(x.shape[0]):
            x = x * 1.5 + 1
        return x

    fast = escapement.jit(f, max_recordings=2)
    for rows in [2, 3, 4, 5, 4]:
        x = torch.randn(rows, 3)
        assert torch.equal(fast(here(x)).cpu(), f(x))
    assert fast.info()["regions"][0]["fallbacks"] == {"too_many_recordings": 3}


def test_no_arguments_but_a_weight_of_the_device():
    weight = here(torch.randn(5))
    fast = escapement.jit(lambda n: weight[:n] * 2)
    for n in [2, 3, 5]:
        assert torch.equal(fast(n).cpu(), weight.cpu()[:n] * 2)


def test_weights_are_read_anew():
    layer = torch.nn.Linear(3, 2).to(DEVICE)
    fast = escapement.jit(lambda x: layer(x).relu() + 1)
    with torch.no_grad():
        for step in range(4):
            x = torch.randn(2, 3)
            expected = torch.nn.functional.linear(x, layer.weight.cpu(), layer.bias.cpu()).relu() + 1
            torch.testing.assert_close(fast(here(x)).cpu(), expected)
            layer.weight.mul_(2)
    layer.to("cpu")
    with torch.no_grad():
        torch.testing.assert_close(fast(x), layer(x).relu() + 1)


def test_integer_division_by_zero_is_eagers_business():
    fast = escapement.jit(lambda x, y: torch.div(x, y, rounding_mode="floor") + 1)
    x, y = torch.tensor([7, -7, 5]), torch.tensor([2, 2, -3])
    for _ in range(2):
        assert torch.equal(fast(here(x), here(y)).cpu(), torch.div(x, y, rounding_mode="floor") + 1)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        fast(here(x), here(torch.zeros(3, dtype=torch.long)))


def test_data_dependent_sizes():
    fast = escapement.jit(lambda x: x[x > 0].exp() * 2)
    for _ in range(4):
        x = torch.randn(11)
        torch.testing.assert_close(fast(here(x)).cpu(), x[x > 0].exp() * 2)


def test_a_report():
    fast = escapement.jit(lambda x: (x * 2).softmax(-1))
    text = str(escapement.explain(fast)(here(torch.randn(3, 4))))
    assert "k0_" in text
    assert fast.info()["regions"][0]["versions"][0]["device"] == DEVICE


def test_a_profiled_call():
    fast = escapement.jit(lambda x: (x * 2).softmax(-1) @ x)
    x = here(torch.randn(4, 4))
    fast(x)
    expected = fast(x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        out = fast(x)
    assert torch.equal(out.cpu(), expected.cpu()) and any(event.key == "aten::mm" for event in profile.key_averages())


def test_an_address_that_the_program_asks_for():
    fast = escapement.jit(lambda x: x + (torch.zeros(4, device=x.device).data_ptr() != 0))
    for _ in range(3):
        x = torch.randn(4)
        assert torch.equal(fast(here(x)).cpu(), x + 1)


def test_inference_mode():
    fast = escapement.jit(lambda x: x * 2 + 1)
    with torch.inference_mode():
        for rows in [2, 3]:
            x = torch.randn(rows, 2)
            out = fast(here(x))
            assert out.is_inference() and torch.equal(out.cpu(), x * 2 + 1)
    x = torch.randn(2, 2)
    assert not fast(here(x)).is_inference()


def test_gradients_run_eagerly():
    fast = escapement.jit(lambda x: (x * x).sum())
    for _ in range(2):
        x = here(torch.randn(3)).requires_grad_()
        fast(x).backward()
        assert_exact(x.grad.cpu(), (x * 2).detach().cpu())
    assert fast.info()["eager"] == {"gradient": 2}


def test_floats_of_many_values():
    fast = escapement.jit(lambda x, s: x * s)
    for s in [0.5, 1.5, 2.5, 3.5, 4.5]:
        x = torch.randn(3)
        assert torch.equal(fast(here(x), s).cpu(), x * s)
