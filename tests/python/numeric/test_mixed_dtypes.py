"""Operands of different dtypes: eager converts each to the common dtype before it computes, which rounds integers, numbers and 0-d tensors
that meet half precision, but not a second factor, divisor or weight of one element. Bits are compared, at sizes 0, 1 and more, with one
recording for all of them.
"""

import itertools

import pytest
import torch
import torch.nn.functional as F

import escapement

FUNCTIONS = {
    "add": torch.add, "sub": torch.sub, "rsub": torch.rsub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum, "minimum": torch.minimum,
    "copysign": torch.copysign, "eq": torch.eq, "gt": torch.gt, "le": torch.le, "logical_or": torch.logical_or,
    "where": lambda a, b: torch.where(a > 0, a, b), "addcmul": lambda a, b: torch.addcmul(a, a, b), "addcdiv": lambda a, b: torch.addcdiv(a, a, b),
    "clamp": lambda a, b: torch.clamp(a, b, b + 1), "chain": lambda a, b: a * b + a - b, "cat": lambda a, b: torch.cat([a.reshape(-1), b.reshape(-1)]),
    "fmod": torch.fmod,
}
HALF = (torch.bfloat16, torch.float16)
DTYPES = (*HALF, torch.float32, torch.float64, torch.int64, torch.int16, torch.uint8, torch.bool)
PAIRS = [(first, second) for first, second in itertools.product(DTYPES, DTYPES) if first in HALF or second in HALF]
SHAPES = {"rows": (("n",), ("n",)), "0-d second": (("n",), ()), "0-d first": ((), ("n",)), "broadcast": (("n", 1), ("m",)), "both 0-d": ((), ())}
SIZES = ({"n": 5, "m": 3}, {"n": 1, "m": 1}, {"n": 1, "m": 4}, {"n": 0, "m": 2}, {"n": 37, "m": 1})


def draw(dtype, shape, seed):
    """Large enough that half precision rounds integers."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return (torch.randn(shape, generator=generator, dtype=torch.float64) * (3 if seed % 2 else 300)).to(dtype)
    high = {torch.bool: 2, torch.uint8: 100}.get(dtype, 30000)
    return torch.randint(0 if dtype in (torch.bool, torch.uint8) else -high, high, shape, generator=generator).to(dtype)


def sized(shape, sizes):
    return [sizes.get(s, s) for s in shape]


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and bool(((a == b) | (a != a) & (b != b)).all())


def outcome(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return type(error)


def calls(shapes, first, second):
    for seed, sizes in enumerate(SIZES):
        yield draw(first, sized(shapes[0], sizes), seed), draw(second, sized(shapes[1], sizes), 100 + seed)


@pytest.mark.parametrize("form", SHAPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_dtypes(name, form):
    for first, second in PAIRS:
        function = escapement.jit(FUNCTIONS[name])
        for a, b in calls(SHAPES[form], first, second):
            ours, eager = outcome(function, a, b), outcome(FUNCTIONS[name], a, b)
            assert ours is eager if isinstance(eager, type) else same(ours, eager), (first, second, a, b, ours, eager)


@pytest.mark.parametrize("form", ("rows", "0-d second", "broadcast"))
@pytest.mark.parametrize("name", ("add", "mul", "div", "chain"))
def test_one_recording(name, form):
    """Whether an operand happens to have one element is a question of each call, not of the recording."""
    for second in (torch.int64, torch.float32):
        function = escapement.jit(FUNCTIONS[name])
        for a, b in calls(SHAPES[form], torch.bfloat16, second):
            assert same(function(a, b), FUNCTIONS[name](a, b)), (a, b)
        info = function.info()
        assert info["recordings"] == 1 and not info["eager"], info


NUMBERS = {
    "mul": lambda a, k: a * k, "rmul": lambda a, k: k * a, "div": lambda a, k: a / k, "rdiv": lambda a, k: k / a, "add": lambda a, k: a + k,
    "rsub": lambda a, k: k - a, "lerp": lambda a, k: torch.lerp(a, a + 1, k), "where": lambda a, k: torch.where(a > 0, a, k), "ge": lambda a, k: a >= k,
    "clamp": lambda a, k: a.clamp(max=k), "masked_fill": lambda a, k: a.masked_fill(a > 0, k), "leaky_relu": lambda a, k: F.leaky_relu(a, 0.1003),
    "addcmul": lambda a, k: torch.addcmul(a, a, a, value=0.1003), "addcdiv": lambda a, k: torch.addcdiv(a, a, a, value=0.1003),
    "hardtanh": lambda a, k: F.hardtanh(a, -0.1003, 0.7003), "threshold": lambda a, k: F.threshold(a, 0.1003, 0.7003),
}


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("varies", (False, True))
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_and_half_precision(name, varies, dtype):
    program = NUMBERS[name]
    function = escapement.jit(program if varies else lambda a: program(a, 0.1003))
    for seed, size in enumerate((5, 0, 1, 37)):
        a, k = draw(dtype, [size], seed), 0.1003 + seed / 7
        ours, eager = (function(a, k), program(a, k)) if varies else (function(a), program(a, 0.1003))
        assert same(ours, eager), (a, k, ours, eager)
