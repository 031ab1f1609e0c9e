"""Floats that differ from call to call: schedules, mixing weights. They are run-time numbers wherever they stand, and calls with them, with strings, flags
and None among the arguments, do not reach Python once a version serves them."""

import math

import pytest
import torch
import torch.nn.functional as F

import escapement

VALUES = [0.5, -1.25, 0.1, 3.0, 0.0, -0.0, 1e-30, 7.7, -2.5, 1.0]

PROGRAMS = {
    "add": lambda x, y, z, a: torch.add(x, y, alpha=a),
    "add of a negative": lambda x, y, z, a: x.clone().add_(y, alpha=-a),
    "sub": lambda x, y, z, a: torch.sub(x, y, alpha=a),
    "sub in place": lambda x, y, z, a: x.clone().sub_(y, alpha=a * 2),
    "rsub": lambda x, y, z, a: torch.rsub(x, y, alpha=a),
    "a number": lambda x, y, z, a: torch.add(x, 2, alpha=a),
    "broadcast": lambda x, y, z, a: torch.add(x, y[:1], alpha=a),
    "integers": lambda x, y, z, a: torch.add(x, torch.arange(x.shape[1]), alpha=a),
    "of integers": lambda x, y, z, a: torch.add(torch.arange(x.shape[1]), x, alpha=a),
    "addcmul": lambda x, y, z, a: torch.addcmul(x, y, z, value=a),
    "addcmul in place": lambda x, y, z, a: x.clone().addcmul_(y, z[:1], value=1 - a),
    "addcdiv": lambda x, y, z, a: torch.addcdiv(x, y, z, value=-a),
    "lerp": lambda x, y, z, a: torch.lerp(x, y, a),
    "out": lambda x, y, z, a: torch.add(x, y, alpha=a, out=torch.empty_like(x)),
    "transposed": lambda x, y, z, a: x.t().add(y.t(), alpha=a),
    "leaky_relu": lambda x, y, z, a: F.leaky_relu(x, a),
    "elu": lambda x, y, z, a: F.elu(x, a),
    "elu in place": lambda x, y, z, a: F.elu(x.clone(), 1 + a, inplace=True),
    "elu of three": lambda x, y, z, a: torch.ops.aten.elu(x, a, 0.5, a),
    "softplus": lambda x, y, z, a: F.softplus(x, 1.5 + abs(a), 2),
    "softplus beyond": lambda x, y, z, a: F.softplus(x, 1, a),
    "threshold": lambda x, y, z, a: F.threshold(x, a, 2.5),
    "threshold's value": lambda x, y, z, a: F.threshold(x, 0.25, a),
    "hardtanh": lambda x, y, z, a: torch.ops.aten.hardtanh(x, a, 3),
    "hardtanh's upper": lambda x, y, z, a: torch.ops.aten.hardtanh(x.t(), -3.0, a),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_eagers(name, dtype):
    program = PROGRAMS[name]
    fast = escapement.jit(program)
    for turn, rows in enumerate((3, 1, 0, 8, 5, 3)):
        for value in VALUES[turn:] + VALUES[:turn]:
            x, y, z = (torch.randn(rows, 37).to(dtype) for _ in range(3))
            z = z.abs() + 1
            torch.testing.assert_close(fast(x, y, z, value), program(x, y, z, value), rtol=1e-2 if dtype.itemsize == 2 else 1e-6, atol=1e-6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_are_no_keys(name):
    fast = escapement.jit(PROGRAMS[name])
    for i in range(40):
        fast(torch.randn(4, 8), torch.randn(4, 8), torch.rand(4, 8) + 1, 0.1 + 0.01 * i)
    info = fast.info()
    assert info["versions"] <= 4 and not info["eager"] and not any(region["fallbacks"] for region in info["regions"])


@pytest.mark.parametrize("name", sorted({*PROGRAMS} - {"broadcast", "addcmul in place"}))   # whose second operand has one row: that is another kind of call
def test_one_version_serves_all_sizes_and_numbers(name):
    """Once the number is no constant any more: nothing is recorded again, and the version's kernels run."""
    fast = escapement.jit(PROGRAMS[name])
    made = lambda rows: [torch.rand(rows, 8) + 1 for _ in range(3)]   # noqa: E731
    for value in (0.1, 0.2, 0.3):
        fast(*made(4), value)
    recordings, before = fast.info()["recordings"], hits(fast)
    sizes = (0, 1, 2, 3, 7, 13, 97)
    for i, rows in enumerate(sizes):
        fast(*made(rows), 0.4 + i)
    assert fast.info()["recordings"] == recordings == 3 and hits(fast) == before + len(sizes)
    kernels = fast.info()["regions"][-1]["versions"][0]["kernels"]
    assert kernels and sum(kernel["launches"] for kernel in kernels) >= 1


def hits(fast):
    return sum(version["hits"] for region in fast.info()["regions"] for version in region["versions"])


def test_a_number_that_no_float_holds_raises_as_in_eager():
    fast = escapement.jit(PROGRAMS["add"])
    x = torch.ones(2, 3)
    for i in range(10):
        fast(x, x, x, 0.3 * i)
    for bad in (1e39, -1e39):
        with pytest.raises(RuntimeError, match="overflow"):
            PROGRAMS["add"](x, x, x, bad)
        with pytest.raises(RuntimeError, match="overflow"):
            fast(x, x, x, bad)
    for special in (math.inf, -math.inf, math.nan):
        torch.testing.assert_close(fast(x, x, x, special), PROGRAMS["add"](x, x, x, special), equal_nan=True)


def test_a_number_that_fitted_before_it_was_written():
    def program(x, scale):
        scale.view(1).mul_(2)
        return x.add_(x.clone(), alpha=float(scale))

    fast = escapement.jit(program)
    for i in range(12):
        ours, eager = (torch.full((3,), 0.5 + i) for _ in range(2))
        torch.testing.assert_close(fast(ours, torch.tensor(0.1 * i, dtype=torch.float64)), program(eager, torch.tensor(0.1 * i, dtype=torch.float64)))
    for call in (program, fast, fast):
        with pytest.raises(RuntimeError, match="overflow"):
            call(torch.ones(3), torch.tensor(3e38, dtype=torch.float64))


def test_an_optimiser_with_a_schedule():
    def step(parameter, gradient, mean, square, lr, beta):
        mean.lerp_(gradient, 1 - beta)
        square.mul_(beta).addcmul_(gradient, gradient, value=1 - beta)
        parameter.addcdiv_(mean, square.sqrt().add_(1e-8), value=-lr)
        return parameter

    fast = escapement.jit(step)
    ours, eager = ([torch.ones(n, 5) for n in (3, 1, 4)] for _ in range(2))
    states = [[(torch.zeros_like(p), torch.zeros_like(p)) for p in parameters] for parameters in (ours, eager)]
    for t in range(60):
        lr, beta = 1e-2 * (1 + math.cos(t / 20)), 1 - 0.1 / (t + 1)
        for i, parameter in enumerate(ours):
            gradient = torch.randn_like(parameter)
            fast(parameter, gradient, *states[0][i], lr, beta)
            step(eager[i], gradient, *states[1][i], lr, beta)
    for a, b in zip(ours, eager):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    assert not fast.info()["eager"] and fast.info()["versions"] <= 10


# --- the quick way

def reaches_python(fast, monkeypatch, *args, **kwargs):
    """Whether a call does."""
    seen = []
    monkeypatch.setattr(type(fast), "_current_table", lambda self, inner=type(fast)._current_table: seen.append(1) or inner(self))
    fast(*args, **kwargs)
    monkeypatch.undo()
    return bool(seen)


def described(x, how="sum", scale=1.0, mask=None, keep=False, k=2):
    found = getattr(x * scale, how)(-1, keepdim=keep) if how != "max" else (x * scale).amax(-1, keepdim=keep)
    return found * k if mask is None else found * k + mask


CALLS = [((), {}), (("mean",), {}), (("max", 2.5), {}), (("sum", 0.1, None, True), {}), (("sum", 0.1, None, False), {}), ((), {"keep": True, "how": "mean"}),
         (("sum", -0.0), {}), (("sum", 0.0), {}), (("sum", math.nan), {}), (("sum", 1.0, None, False, 3), {}), (("sum", 1.0, None, False, True), {}),
         (("sum", 1), {}), (("sum", True), {}), (("".join(["su", "m"]),), {}), (("sum", 1.0, None, None), {})]


def test_each_constant_gets_its_own_version():
    fast = escapement.jit(described)
    for turn in range(4):
        for rows in (2, 1, 5):
            x = torch.randn(rows, 3)
            for args, kwargs in CALLS[turn:] + CALLS[:turn]:
                try:
                    expected = described(x, *args, **kwargs)
                except TypeError:
                    with pytest.raises(TypeError):
                        fast(x, *args, **kwargs)
                    continue
                found = fast(x, *args, **kwargs)
                assert torch.equal(torch.signbit(found), torch.signbit(expected))
                torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize("args", [("sum", 0.7), ("mean", 1.0, None, True), ("max",), ("sum", 0.7, None, False, 3)])
def test_such_calls_do_not_reach_python(args, monkeypatch):
    with torch.no_grad():
        fast = escapement.jit(described)
        for scale in (0.1, 0.2, 0.3, 0.4, 0.7, 0.8):
            fast(torch.randn(2, 3), args[0], scale, *args[2:])
        for _ in range(3):
            fast(torch.randn(2, 3), *args)
        assert not reaches_python(fast, monkeypatch, torch.randn(4, 3), *args)
        assert reaches_python(fast, monkeypatch, torch.randn(4, 3), *args[:1], k=torch.ones(()))


def test_constants_that_are_objects():
    def cast(x, dtype, device):
        return x.to(dtype=dtype, device=device) + 1

    fast = escapement.jit(cast)
    for dtype in (torch.float64, torch.float32, torch.bfloat16) * 3:
        found = fast(torch.ones(2), dtype, torch.device("cpu"))
        assert found.dtype == dtype and torch.equal(found, torch.full((2,), 2, dtype=dtype))


def test_the_same_float_twice_and_the_same_tensor_twice():
    def mixed(x, y, a, b):
        return (x * a + y * b, x is y)

    fast, value, x = escapement.jit(mixed), 0.3, torch.randn(4)
    for i in range(6):
        other = torch.randn(4)
        for y in (other, x):
            found, expected = fast(x, y, value + i, value + i), mixed(x, y, value + i, value + i)
            torch.testing.assert_close(found[0], expected[0])
            assert found[1] == expected[1]
