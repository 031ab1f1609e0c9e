"""Every pointwise row of the op table through the recorder and LLVM, against eager: bit-equal (exact tier) or within 2 ulp."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from harness import SHAPES, all_in_kernels, assert_exact, assert_near_fp64, assert_ulp, compiled, layouts, seeded, values

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
ALL = FLOATS + INTEGERS + [torch.bool]

# name: (function, dtypes)
EXACT_UNARY = {
    "neg": (torch.neg, FLOATS + INTEGERS), "abs": (torch.abs, FLOATS + INTEGERS), "square": (torch.square, FLOATS + INTEGERS),
    "reciprocal": (torch.reciprocal, FLOATS), "rsqrt": (torch.rsqrt, FLOATS[:2]),
    "floor": (torch.floor, FLOATS), "ceil": (torch.ceil, FLOATS), "trunc": (torch.trunc, FLOATS), "round": (torch.round, FLOATS),
    "frac": (torch.frac, FLOATS), "sign": (torch.sign, ALL), "relu": (torch.relu, FLOATS + INTEGERS),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.1), FLOATS), "threshold": (lambda x: F.threshold(x, 0.5, 2.0), FLOATS),
    "hardtanh": (F.hardtanh, FLOATS), "relu6": (F.relu6, FLOATS), "hardsigmoid": (F.hardsigmoid, [torch.float32, torch.float64]),
    "hardswish": (F.hardswish, [torch.float32, torch.float64]), "isnan": (torch.isnan, FLOATS), "isinf": (torch.isinf, FLOATS),
    "isfinite": (torch.isfinite, FLOATS), "logical_not": (torch.logical_not, ALL),
    "bitwise_not": (torch.bitwise_not, INTEGERS + [torch.bool]), "clamp": (lambda x: x.clamp(-1, 2), FLOATS + INTEGERS[:4]),
    "clamp_min": (lambda x: x.clamp(min=0.5), FLOATS), "to_double": (lambda x: x.to(torch.float64), ALL),
    "to_int": (lambda x: x.to(torch.int32), INTEGERS + [torch.bool]), "to_bool": (lambda x: x.to(torch.bool), ALL),
    "to_bf16": (lambda x: x.to(torch.bfloat16), ALL), "to_half": (lambda x: x.to(torch.float16), ALL),
    "to_float": (lambda x: x.float(), ALL), "add_number": (lambda x: x + 2.5, ALL), "mul_int": (lambda x: x * 3, ALL),
    "rsub": (lambda x: 1.0 - x, FLOATS), "div_number": (lambda x: x / 3, FLOATS), "masked_fill": (lambda x: x.masked_fill(x > 0, 7), ALL[:9]),
    "gt_number": (lambda x: x > 0.5, ALL), "clone": (torch.clone, ALL),
    "sgn": (torch.sgn, ALL), "signbit": (torch.signbit, ALL), "isposinf": (torch.isposinf, ALL), "isneginf": (torch.isneginf, ALL),
    "deg2rad": (torch.deg2rad, ALL), "rad2deg": (torch.rad2deg, ALL), "hardshrink": (lambda x: F.hardshrink(x, 0.3), FLOATS),
    "softshrink": (lambda x: F.softshrink(x, 0.3), FLOATS), "nan_to_num": (torch.nan_to_num, FLOATS),
    "nan_to_num_given": (lambda x: x.nan_to_num(1.5, posinf=7, neginf=-9.25), FLOATS), "prelu": (lambda x: F.prelu(x, x.new_tensor([0.3])), FLOATS),
    "shifts": (lambda x: (x << 3) ^ (x >> 2), INTEGERS),
}
SINGLES = [torch.float32, torch.bfloat16, torch.float16]  # f64 is ATen's
STABLE_UNARY = {
    **{name: (getattr(torch, name), SINGLES) for name in ("tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erfc")},
    "sinc": torch.sinc, "logit": torch.logit, "logit_eps": lambda x: torch.logit(x, 0.1), "entr": torch.special.entr,
    "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1, "log": torch.log, "log2": torch.log2, "log10": torch.log10,
    "log1p": torch.log1p, "sin": torch.sin, "cos": torch.cos, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "erf": torch.erf,
    "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "silu": F.silu, "softplus": F.softplus, "elu": F.elu, "selu": F.selu, "celu": lambda x: F.celu(x, 0.7), "pow2.5": lambda x: x.abs() ** 2.5, "pow3": lambda x: x ** 3,
}
EXACT_BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "maximum": torch.maximum, "minimum": torch.minimum, "eq": torch.eq,
    "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge, "logical_and": torch.logical_and,
    "logical_or": torch.logical_or, "logical_xor": torch.logical_xor, "where": lambda a, b: torch.where(a > b, a, b),
    "add_alpha": lambda a, b: torch.add(a, b, alpha=2), "fmax": torch.fmax, "fmin": torch.fmin, "heaviside": torch.heaviside,
    "shift_left": torch.bitwise_left_shift, "shift_right": torch.bitwise_right_shift, "prelu": torch._prelu_kernel,
}
STABLE_BINARY = {
    "atan2": (torch.atan2, SINGLES), "hypot": (torch.hypot, SINGLES), "xlogy": (torch.xlogy, FLOATS), "xlog1py": (torch.special.xlog1py, FLOATS),
}
CANCELS = {"logaddexp": torch.logaddexp, "logaddexp2": torch.logaddexp2}  # near zero
ONLY = {"shift_left": INTEGERS, "shift_right": INTEGERS, "prelu": FLOATS}
NO_BOOL = {"sub", "add_alpha"}
ZEROS_BY_POSITION = {"maximum", "minimum", "fmax", "fmin", "softshrink"}  # of +0 and -0 eager takes the first in its tails and the second in its vectors
CALLED = {("add_alpha", torch.bfloat16), ("add_alpha", torch.float16)}  # ATen rounds in between in a way of its own


def sweep(call, function, dtypes, check, arity, special=True):
    generator = seeded(1)
    for shape in SHAPES:
        args = [values(shape, dtypes, generator, special) for _ in range(arity)]
        for layout in zip(*[list(layouts(a)) for a in args]):
            tensors = [t for _, t in layout]
            check(call(*tensors), function(*tensors))


@pytest.mark.parametrize("name", EXACT_UNARY)
def test_exact_unary(name):
    function, dtypes = EXACT_UNARY[name]
    for dtype in dtypes:
        if function(torch.ones(1, dtype=dtype)).dtype == dtype and name.startswith("to_"):
            continue  # eager hands back its argument
        call = compiled(function, 1)
        sweep(call, function, dtype, partial(assert_exact, signed_zeros=name not in ZEROS_BY_POSITION), 1)
        all_in_kernels(call)


def near_eager(row, arity):
    function, dtypes = row if isinstance(row, tuple) else (row, FLOATS)
    for dtype in FLOATS:
        call = compiled(function, arity)
        sweep(call, function, dtype, lambda ours, eager: assert_ulp(ours, eager, 2), arity)
        if dtype in dtypes:
            all_in_kernels(call)


@pytest.mark.parametrize("name", STABLE_UNARY)
def test_stable_unary(name):
    near_eager(STABLE_UNARY[name], 1)


@pytest.mark.parametrize("name", STABLE_BINARY)
def test_stable_binary(name):
    near_eager(STABLE_BINARY[name], 2)


@pytest.mark.parametrize("name", EXACT_BINARY)
def test_exact_binary(name):
    function = EXACT_BINARY[name]
    for dtype in ONLY.get(name, ALL):
        if dtype == torch.bool and name in NO_BOOL:
            continue
        call = compiled(function, 2)
        sweep(call, function, dtype, partial(assert_exact, signed_zeros=name not in ZEROS_BY_POSITION), 2)
        if (name, dtype) not in CALLED:
            all_in_kernels(call)


@pytest.mark.parametrize("name", CANCELS)
def test_of_two_that_cancel(name):
    function = CANCELS[name]
    for dtype in FLOATS:
        call, generator = compiled(function, 2), seeded(name)
        for shape in SHAPES:
            a, b = values(shape, dtype, generator), values(shape, dtype, generator)
            assert_near_fp64(call(a, b), function(a, b), function(a.double(), b.double()))
        all_in_kernels(call)


@pytest.mark.parametrize("name", ["add", "mul", "lt", "maximum", "fmax"])
def test_type_promotion(name):
    function = EXACT_BINARY[name]
    generator = seeded(name)
    for left in ALL:
        for right in ALL:
            call = compiled(function, 2)
            for shape in [(4, 5), (1, 3), (0, 2)]:
                a, b = values(shape, left, generator), values(shape, right, generator)
                assert_exact(call(a, b), function(a, b), signed_zeros=name not in ZEROS_BY_POSITION)


BROADCASTS = [((3, 4, 5), (5,)), ((3, 4, 5), (4, 1)), ((3, 1, 5), (1, 4, 1)), ((3, 4, 5), ()), ((4, 1), (1, 7)), ((0, 4), (1, 4))]


@pytest.mark.parametrize("shapes", BROADCASTS, ids=str)
def test_broadcasting(shapes):
    generator = seeded(shapes)
    a, b = (values(s, torch.float32, generator) for s in shapes)
    call = compiled(lambda x, y: (x * y + x).relu(), 2)
    for _ in range(2):
        assert_exact(call(a, b), (a * b + a).relu())
    all_in_kernels(call)
    assert len(call.info()["versions"]) == 1


def test_one_recording_for_all_sizes():
    call = compiled(lambda x, y: (x * 2 + y).relu() - y, 2)
    generator = seeded("sizes")
    for shape in SHAPES + [(64, 1000), (129, 513)]:
        a, b = values(shape, torch.float32, generator), values(shape, torch.float32, generator)
        assert_exact(call(a, b), (a * 2 + b).relu() - b)
    assert call.info()["recordings"] == 1, call.info()
