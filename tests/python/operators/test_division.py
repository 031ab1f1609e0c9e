"""Division that rounds and what it leaves, against eager: every form of the divisor, every dtype, values where they differ.

fmod of f32 is exact here and in C; eager's vectorised function gives NaN where the quotient is very large, so numbers of all sizes are compared
with NumPy's (not at the first call, which is eager's)."""

import itertools
import math

import numpy as np
import pytest
import torch
from harness import all_in_kernels, assert_exact, compiled, layouts

SINGLES = [torch.float32, torch.bfloat16, torch.float16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
FORMS = {
    "fmod": torch.fmod, "remainder": torch.remainder, "percent": lambda a, b: a % b, "floor_divide": torch.floor_divide,
    "slashes": lambda a, b: a // b, "floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
}
ROUNDS = {"floor_divide", "slashes", "floor", "trunc"}  # in half types eager rounds between the steps, with two tensors
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -2.0, 2.5, 3.0, -3.0, 5.25, 7.0, 1e-3, 100.0, -60000.0, math.inf, -math.inf, math.nan]


def pairs(dtype):
    a, b = zip(*itertools.product(NUMBERS, NUMBERS))
    left, right = torch.tensor(a, dtype=dtype), torch.tensor(b, dtype=dtype)
    generator = torch.Generator().manual_seed(7)
    many = [torch.randn(1031, generator=generator).mul(s).to(dtype) for s in (20.0, 3.0)]
    return torch.cat([left, many[0]]), torch.cat([right, many[1]])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", SINGLES, ids=str)
def test_of_floats(form, dtype):
    function = FORMS[form]
    call = compiled(function, 2)
    a, b = pairs(dtype)
    for (_, x), (_, y) in zip(layouts(a), layouts(b)):
        assert_exact(call(x, y), function(x, y))
    for size in (0, 1, 17):
        assert_exact(call(a[:size], b[:size]), function(a[:size], b[:size]))
    if dtype == torch.float32 or form not in ROUNDS:
        all_in_kernels(call)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", SINGLES + [torch.float64], ids=str)
def test_of_floats_by_numbers(form, dtype):
    function, (a, _) = FORMS[form], pairs(dtype)
    for number in [3, -7, 2.5, 0.1, -0.75, 1e-3, 1e4, math.inf, 0.0]:
        call = compiled(lambda x: function(x, number), 1)
        assert_exact(call(a), function(a, number))
        assert_exact(call(a[:5]), function(a[:5], number))


def integers(dtype):
    ends = torch.iinfo(dtype)
    return torch.tensor([*range(max(-40, ends.min), 41), ends.min, ends.min + 1, ends.max, ends.max - 1], dtype=dtype)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_of_integers_by_numbers(form, dtype):
    function, a = FORMS[form], integers(dtype)
    for number in [1, 2, 3, 7, 10, 100] + [-2, -3, -100] * (dtype != torch.uint8):
        call = compiled(lambda x: function(x, number), 1)
        for x in (a, a[:1], a[:0], a[:7], a[:31]):
            assert_exact(call(x), function(x, number))
        assert call.info()["recordings"] == 1, call.info()["recordings"]
        assert_exact(call(a[::2]), function(a[::2], number))
        all_in_kernels(call)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_of_integers(form, dtype):
    function, a = FORMS[form], integers(dtype)
    call = compiled(function, 2)
    b = a.roll(7)
    a, b = a[(b != 0) & (b != -1)], b[(b != 0) & (b != -1)]
    for size in (len(a), 1, 0):
        assert_exact(call(a[:size], b[:size]), function(a[:size], b[:size]))
    assert_exact(call(a * 1, b.new_tensor(5)), function(a, b.new_tensor(5)))


@pytest.mark.parametrize("form", FORMS)
def test_by_zero_is_an_error_as_in_eager(form):
    function, a = FORMS[form], torch.arange(5)
    for call, args in ((compiled(function, 2), (a, a)), (compiled(lambda x: function(x, 0), 1), (a,))):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            call(*args)


@pytest.mark.parametrize("form", FORMS)
def test_of_two_dtypes(form):
    function = FORMS[form]
    for left, right in itertools.product([torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.float64], repeat=2):
        a, b = torch.tensor([7.0, 3, 100, 0, 6, 9]).to(left), torch.tensor([2.0, 3, 7, 5, 4, 1]).to(right)
        call = compiled(function, 2)
        assert_exact(call(a, b), function(a, b))
        assert_exact(call(a[:3], b[:3]), function(a[:3], b[:3]))


def bit_patterns(seed):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 1 << 32, 200000, dtype=np.uint32).view(np.float32).copy())


def warm(function, arity):
    call = compiled(function, arity)
    call(*[torch.ones(3)] * arity)
    return call


def test_fmod_is_exact():
    """All exponents, subnormal numbers among them."""
    a, b = bit_patterns(1), bit_patterns(2)
    with np.errstate(all="ignore"):
        exact = torch.from_numpy(np.fmod(a.numpy(), b.numpy()))
    assert_exact(warm(torch.fmod, 2)(a, b), exact)
    for number in (2.0, 0.3, -7.0, 1e-30, 1e-45, 3e38):
        with np.errstate(all="ignore"):
            exact = torch.from_numpy(np.fmod(a.numpy(), np.float32(number)))
        assert_exact(warm(lambda x: torch.fmod(x, number), 1)(a), exact)  # noqa: B023


def test_remainder_has_the_sign_of_the_divisor():
    a, b = bit_patterns(3), bit_patterns(4)
    with np.errstate(all="ignore"):
        rest = np.fmod(a.numpy(), b.numpy())
        exact = np.where((rest != 0) & ((rest < 0) != (b.numpy() < 0)), rest + b.numpy(), rest)
    assert_exact(warm(torch.remainder, 2)(a, b), torch.from_numpy(exact))
