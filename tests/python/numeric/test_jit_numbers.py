"""Numbers between Python, torch and compiled code: complex ones, those beyond 32 bits, what is no number, long chains of arithmetic."""

import pytest
import torch

import escapement
from answered import Counted
from escapement.core import core

pytestmark = pytest.mark.skipif(not hasattr(core(), "Region"), reason="needs the compiled core")


# --- types that no kernel of ours knows

COMPLEX = {
    "number written": lambda z: z[1:].fill_(100), "element written": lambda z: z.clone().index_fill_(0, torch.tensor([0]), 3j),
    "transposed in place": lambda z: torch.complex(z.real, z.imag).unsqueeze(0).transpose_(0, -1) != 1,
    "literal": lambda z: z + torch.tensor([1j]), "equal": lambda z: torch.equal(z, z),
    "assigned": lambda z: (z.__setitem__(slice(1, None), 7), z)[1],
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers(name):
    jitted = Counted(COMPLEX[name])
    for n in jitted.twice((3, 1, 2, 5)):
        z = torch.complex(torch.arange(n) * 1.0, torch.ones(n))
        ours, eager = jitted(z.clone()), COMPLEX[name](z.clone())
        assert ours == eager if isinstance(eager, bool) else torch.equal(ours, eager) and ours.dtype == eager.dtype
    assert not any("internal_error" in region["fallbacks"] for region in jitted.info()["regions"])
    jitted.expect()


def test_equality_of_what_is_no_number():
    for equal in (lambda x: torch.equal(x / x, x / x), lambda x: (lambda y: torch.equal(y, y))(x / x)):
        jitted = Counted(equal)
        for values in jitted.twice(([1.0, 2.0], [1.0, 0.0], [0.0], [3.0, 1.0, 2.0], [])):
            assert jitted(torch.tensor(values)) == equal(torch.tensor(values))
        jitted.expect()


# --- torch's constructors

MAKERS = {
    "tensor": lambda x, n: torch.tensor(n), "list": lambda x, n: torch.tensor([n, 1]), "float": lambda x, n: torch.tensor(n, dtype=torch.float32),
    "Tensor": lambda x, n: torch.Tensor([n]), "as_tensor": lambda x, n: torch.as_tensor([n, 3]), "product": lambda x, n: torch.tensor(n * n),
    "new_tensor": lambda x, n: x.new_tensor([n, 2]), "new": lambda x, n: x.new([n, 2]),
}


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("name", MAKERS)
def test_integers_that_need_more_than_32_bits(name, mode):
    jitted = Counted(MAKERS[name], mode=mode)
    # What torch cannot make of a symbol makes the function one of its numbers, which are recorded once more: so many.
    for n in jitted.twice((5, 70000, 2**31, 2**40, -(2**33), 7, -(2**63), 2**63 - 1, -5), before=2):
        if name == "product" and abs(n) > 2**31:
            continue
        x = torch.ones(3)
        ours, eager = jitted(x, n), MAKERS[name](x, n)
        assert ours.dtype == eager.dtype and torch.equal(ours, eager), n
    jitted.expect("ran_at_once too_many_recordings" if mode == "call" else "ran_at_once")   # there are more of them than recordings


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("maker", ["new_tensor", "new"])
def test_made_like_a_result(maker, mode):
    """After a write nothing can be tried again, so nothing of this may raise."""
    def function(x):
        x.add_(1)
        y = (x * 2).double()
        y.add_(1)
        return getattr(y, maker)([1, 2, 3]) + y.sum(), x.new_tensor(4)

    jitted = Counted(function, mode=mode)
    for n in jitted.twice((3, 1, 0, 7)):
        ours, eager = jitted(torch.ones(n)), function(torch.ones(n))
        assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(ours, eager))
    jitted.expect()


# --- chains of floating-point numbers

def test_a_chain_in_which_each_step_uses_the_last_twice():
    def function(x, k):
        f = k / 3
        for _ in range(300):
            f = f * 0.5 + f * 0.25
        return x * (f + 1), x if f < 2 else -x

    jitted = Counted(function)
    for k in jitted.twice((1, 2, 5)):
        x = torch.ones(k)
        assert all(torch.equal(a, b) for a, b in zip(jitted(x, k), function(x, k)))
    jitted.expect()


def test_a_chain_longer_than_the_stack():
    def function(x):
        f = x.sum().item()
        for _ in range(100000):
            f = f * 0.999 + 1.0
        return x + f

    jitted = Counted(function)
    for n in jitted.twice((1, 2)):
        torch.testing.assert_close(jitted(torch.ones(n)), function(torch.ones(n)))
    jitted.expect()


# --- exponents

# ATen rounds an exponent to float32 for the elements that fill its vectors, and for the others not. Where that makes an odd exponent even
# or a fraction an integer the difference is a sign or a NaN: each element is what ATen makes of it.
EXPONENTS = (3, 2**24 + 1, -(2**24) - 1, 2**25 + 2, 3 + 1e-9, 1e-39, 2.0**-150, 1e39, 2.5, 0.1, float("inf"), float("-inf"), float("nan"), 0.0, 2)


@pytest.mark.parametrize("form", ["known", "varying"])
@pytest.mark.parametrize("mode", ["call", "replay"])
def test_exponents_that_float32_does_not_hold(mode, form):
    def power(x, e):
        return x**e

    def check(jitted, e, n, *args):
        x = torch.tensor([-1.0, -1.5, 0.0, float("nan"), 2.0]).repeat(n)[:n]
        found = jitted(x, *args)
        torch.testing.assert_close(found, power(x, e), equal_nan=True, msg=f"{e} at {n}: {found}, not {power(x, e)}")

    if form == "known":
        for e in EXPONENTS:
            jitted = Counted(lambda x: power(x, e), mode=mode)
            for n in jitted.twice((3, 35)):
                check(jitted, e, n)
            jitted.expect()
        return
    jitted = Counted(power, mode=mode)
    for e, n in jitted.twice([(e, n) for e in EXPONENTS for n in (3, 35)]):
        check(jitted, e, n, e)
    jitted.expect(*() if mode == "call" else ("ran_at_once too_many_branches",))   # each exponent is a way of its own there, and few are kept


# --- numbers that cannot be turned over

SUBTRACTIONS = {"sub": lambda x, v: torch.sub(x, x + 1, alpha=v), "rsub": lambda x, v: torch.rsub(x, x + 1, alpha=v), "in place": lambda x, v: x.clone().sub_(x + 1, alpha=v)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("name", SUBTRACTIONS)
def test_the_least_integer_times_what_is_subtracted(name, mode, dtype):
    """ATen adds with the number's negative, which is the number itself."""
    for least in (-(2**63), -(2**63) + 1, 2**63 - 1):
        jitted = Counted(lambda x: SUBTRACTIONS[name](x, least), mode=mode)
        for n in jitted.twice((3, 1, 5)):
            x = torch.arange(n).to(dtype)
            assert torch.equal(jitted(x), SUBTRACTIONS[name](x, least)), (least, n)
        jitted.expect()


# --- rows of one value

@pytest.mark.parametrize("value", [0.1, 1e3 / 3, -1e4 / 7, 1e7 / 3, 1e18 / 3])
@pytest.mark.parametrize("name", ["layer_norm", "group_norm"])
def test_a_constant_row_is_exactly_zero(name, value):
    functional = torch.nn.functional
    normal = {"layer_norm": lambda x: functional.layer_norm(x, (x.shape[-1],)), "group_norm": lambda x: functional.group_norm(x, 2)}[name]
    jitted = Counted(normal)
    for n in jitted.twice((7, 1, 64, 1000, 4097)):
        x = torch.full((3, 6, n), value)
        assert torch.equal(jitted(x), normal(x)), n
        x[1] = torch.randn(6, n)
        torch.testing.assert_close(jitted(x), normal(x))
    jitted.expect()


# --- what is always zero

ZEROS = {"xor": lambda a: a ^ a, "difference": lambda a: a - a, "product": lambda a: a * 0, "unequal": lambda a: (a != a).to(a.dtype), "and": lambda a: a & 0, "float": lambda a: a.float() - a.float()}
PUT = {"tril": lambda x: x.tril(), "where": lambda x: torch.where(torch.arange(x.shape[0]) % 2 == 0, x, 0.0), "masked": lambda x: x.masked_fill(torch.ones(x.shape, dtype=torch.bool).triu(1), 0)}


@pytest.mark.parametrize("put", PUT)
@pytest.mark.parametrize("zero", ZEROS)
def test_zero_by_zero_is_no_number(zero, put):
    def divide(a):
        z = ZEROS[zero](a)
        return PUT[put](z / 0), PUT[put](z / z), PUT[put](torch.fmod(z.float(), 0))

    jitted = Counted(divide)
    for n in jitted.twice((3, 1, 40)):
        a = torch.arange(n * n, dtype=torch.int16).reshape(n, n)
        for ours, eager in zip(jitted(a), divide(a)):
            torch.testing.assert_close(ours, eager, equal_nan=True)
        for ours, eager in zip(jitted(a + 1), divide(a + 1)):
            torch.testing.assert_close(ours, eager, equal_nan=True)
    jitted.expect()


MAKERS_OF_READ = {
    "tensor": lambda n, x: torch.tensor(n), "list": lambda n, x: torch.tensor([n, 1]), "as_tensor": lambda n, x: torch.as_tensor(n), "new_tensor": lambda n, x: x.new_tensor([n]),
    "full": lambda n, x: torch.full((2,), n), "sum": lambda n, x: n + torch.zeros(2, dtype=torch.int64), "moved": lambda n, x: torch.tensor(n + 0), "float": lambda n, x: float(n),
    "compared": lambda n, x: (n > 3, n == -(2**63)), "text": lambda n, x: f"{n}", "hash": lambda n, x: {n: 1}[n], "index": lambda n, x: n.__index__(),
}


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("name", MAKERS_OF_READ)
def test_wide_integers_that_are_read(name, refused, mode):
    """Also behind an effect, where nothing can be tried again, and where the recording has been refused before."""
    def program(x):
        x.mul_(1)
        if refused:
            torch.manual_seed(0)
        return MAKERS_OF_READ[name](x.max().item(), x)

    jitted = escapement.jit(program, mode=mode)
    for value in (5, 2**40, -(2**63), -(2**63) + 1, 2**63 - 1, -(2**63), 5, -(2**31), 2**32):
        ours, eager = jitted(torch.tensor([value])), program(torch.tensor([value]))
        assert type(ours) is type(eager), value
        assert torch.equal(ours, eager) and ours.dtype == eager.dtype if isinstance(eager, torch.Tensor) else ours == eager, value
