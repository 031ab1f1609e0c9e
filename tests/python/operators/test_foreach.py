"""torch's `_foreach_` operators, out of place and in place: eager's results in both modes, in one recording for all sizes. They are taken apart, so
that what an optimizer does to many tensors is fused."""
import pytest
import torch

import escapement

UNARY = ["abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma", "log", "log10", "log1p", "log2",
         "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"]
OPERANDS = {
    "add": [lambda y: (y,), lambda y: (2.0,), lambda y: ([0.5, 3.0],), lambda y: (y[0].sum(),)], "sub": [lambda y: (y,), lambda y: (2.0,), lambda y: ([0.5, 3.0],)],
    "mul": [lambda y: (y,), lambda y: (2.0,), lambda y: ([0.5, 3.0],), lambda y: (y[0].mean(),)], "div": [lambda y: (y,), lambda y: (2.0,), lambda y: ([0.5, 3.0],)],
    "maximum": [lambda y: (y,), lambda y: (0.3,), lambda y: ([0.5, 0.1],)], "minimum": [lambda y: (y,), lambda y: (0.3,), lambda y: ([0.5, 0.1],)],
    "clamp_max": [lambda y: (y,), lambda y: (0.3,)], "clamp_min": [lambda y: (y,), lambda y: (0.3,)],
    "pow": [lambda y: (y,), lambda y: (2.0,), lambda y: ([2.0, 3.0],)], "lerp": [lambda y: (y, y), lambda y: (y, 0.3)],
    "addcmul": [lambda y: (y, y), lambda y: (y, y, 0.5), lambda y: (y, y, [0.5, 2.0])], "addcdiv": [lambda y: (y, y), lambda y: (y, y, 0.5), lambda y: (y, y, [0.5, 2.0])],
}
CASES = {name: (f"_foreach_{name}", lambda y: ()) for name in UNARY}
CASES |= {f"{name} {i}": (f"_foreach_{name}", operands) for name, forms in OPERANDS.items() for i, operands in enumerate(forms)}


def lists(x):
    return [x.abs().clamp(max=0.6) + 0.3, (x * x).clamp(max=0.8) + 0.1]


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("in_place", [False, True], ids=["", "in place"])
@pytest.mark.parametrize("case", CASES)
def test_results_are_eagers(case, in_place, mode):
    name, operands = CASES[case]
    function = getattr(torch, name + "_" * in_place)

    def program(x):
        given = lists(x)
        made = function(given, *operands(lists(x + 1)))
        return [*(given if in_place else made), given[0] + 1]

    check(program, mode, case not in RECORDED_AGAIN)


# In replay mode: no row, or the composite asks for the number of elements of its operand.
RECORDED_AGAIN = ["lgamma", "add 3"]


def check(program, mode, once=True):
    fast = escapement.jit(program, mode=mode)
    before = escapement.stats().get("launches", 0)
    for rows in (3, 5, 1, 0, 7):
        x = torch.randn(rows, 4)
        with torch.no_grad():
            torch.testing.assert_close(fast(x), program(x), rtol=1e-5, atol=1e-5)
    assert fast.info()["recordings"] == 1 or (mode == "replay" and not once), fast.info()
    assert escapement.stats()["launches"] > before


OTHERS = {
    "norm": lambda x: torch._foreach_norm(lists(x)),
    "norm of another power": lambda x: torch._foreach_norm(lists(x), 1),
    "a number's powers": lambda x: torch._foreach_pow(2.0, lists(x)),
    "zero": lambda x: [a + 1 for a in zeroed(lists(x))],
    "copies": lambda x: copied(lists(x), lists(x * 2)),
    "clipped": lambda x: clipped(lists(x)),
}


def zeroed(given):
    torch._foreach_zero_(given)
    return given


def copied(given, source):
    torch._foreach_copy_(given, source)
    return given


def clipped(given):
    total = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(given)))
    torch._foreach_mul_(given, (1.0 / (total + 1e-6)).clamp(max=1.0))
    return [*given, total]


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("name", OTHERS)
def test_other_programs(name, mode):
    check(OTHERS[name], mode)
