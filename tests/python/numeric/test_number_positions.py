"""Python numbers in every position that takes one, varying between calls in value and in type, and numbers made of sizes."""

import math
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from answered import Counted

inf, nan = math.inf, math.nan
POSITIONS = {
    "x + v": lambda x, v: x + v, "v - x": lambda x, v: v - x, "x * v": lambda x, v: x * v, "v / x": lambda x, v: v / x, "x // v": lambda x, v: x // v, "x % v": lambda x, v: x % v,
    "v ** x": lambda x, v: v ** x, "x < v": lambda x, v: x < v, "integers + v": lambda x, v: x.long() + v, "integers == v": lambda x, v: x.int() == v,
    "integers / v": lambda x, v: x.long() / v, "bools * v": lambda x, v: (x > 0) * v, "bytes + v": lambda x, v: x.abs().to(torch.uint8) + v, "halves * v": lambda x, v: x.half() * v,
    "add_": lambda x, v: x.add_(v), "add_ to integers": lambda x, v: x.long().add_(v), "alpha": lambda x, v: torch.add(x, x, alpha=v), "alpha of sub": lambda x, v: torch.sub(x, x, alpha=v),
    "alpha of integers": lambda x, v: torch.add(x.long(), x.long(), alpha=v), "addcmul": lambda x, v: torch.addcmul(x, x, x, value=v), "lerp": lambda x, v: torch.lerp(x, x + 1, v),
    "clamp": lambda x, v: x.clamp(min=v), "clamp of integers": lambda x, v: x.long().clamp(max=v), "masked_fill": lambda x, v: x.masked_fill(x > 0, v),
    "where": lambda x, v: torch.where(x > 0, v, x), "where of integers": lambda x, v: torch.where(x > 0, x.long(), v), "full": lambda x, v: torch.full((2,), v),
    "full_like of integers": lambda x, v: torch.full_like(x.long(), v), "fill_": lambda x, v: x.fill_(v), "fill_ of bools": lambda x, v: x.bool().fill_(v),
    "full_like of bools": lambda x, v: torch.full_like(x.bool(), v), "masked_fill of bools": lambda x, v: x.bool().masked_fill(x > 0, v), "fill_ of bytes": lambda x, v: x.to(torch.uint8).fill_(v),
    "leaky_relu": lambda x, v: F.leaky_relu(x, v), "elu": lambda x, v: F.elu(x, v), "softplus": lambda x, v: F.softplus(x, v), "threshold": lambda x, v: F.threshold(x, v, 2.),
    "hardshrink": lambda x, v: F.hardshrink(x, v), "eps": lambda x, v: F.layer_norm(x, (x.shape[-1],), eps=v), "norm": lambda x, v: x.norm(v), "beta": lambda x, v: F.smooth_l1_loss(x, x + 1, beta=v),
    "nan_to_num": lambda x, v: torch.nan_to_num(x / 0, v), "correction": lambda x, v: x.var(0, correction=v), "dim": lambda x, v: x.sum(v), "softmax": lambda x, v: x.softmax(v),
    "diagonal": lambda x, v: x.diagonal(v), "tril": lambda x, v: x.tril(v), "roll": lambda x, v: x.roll(v, 0), "select": lambda x, v: x[v], "slice": lambda x, v: x[:v],
    "unsqueeze": lambda x, v: x.unsqueeze(v), "transpose": lambda x, v: x.transpose(v, 0), "stack": lambda x, v: torch.stack([x, x], v), "text": lambda x, v: f"{v}",
    "kind": lambda x, v: (isinstance(v, bool), isinstance(v, int), isinstance(v, float)), "results": lambda x, v: [v, v * 2, (v, {"v": v})], "truth": lambda x, v: x + 1 if v else x,
}
SIZES = {
    "view": lambda x, v: x.view(v, -1), "reshape": lambda x, v: x.reshape(-1, v), "view of all": lambda x, v: x.view(v, v), "unflatten": lambda x, v: x.unflatten(0, (v, -1)),
    "expand": lambda x, v: x[:1].expand(v, -1), "zeros": lambda x, v: x.new_zeros(2, v), "repeat": lambda x, v: x.repeat(v, 1), "narrow": lambda x, v: x.narrow(0, 0, v),
    "split": lambda x, v: x.split(v), "chunk": lambda x, v: x.chunk(v), "eye": lambda x, v: torch.eye(v), "arange": lambda x, v: torch.arange(v), "unfold": lambda x, v: x.unfold(0, v, 1),
}
SEQUENCES = {
    "integers": [2, 3, 0, -1, 1, 5, 2], "reals": [0.5, 2.5, -1.5, 0.25, 0.0], "ends": [1.5, nan, inf, -inf, -0.0, 0.0, 1e300, nan, 2.0], "types": [1, 1.0, True, 2, 2.0, False, 0, 0.0],
    "numpy": [np.float32(1.5), np.int64(2), 1, np.bool_(True), np.float64(0.1), 0.1], "complex": [1.0, 1j, 2 + 1j, 1, 2j], "large": [2**31, 2**53 + 1, -2**63, 2**63 - 1, 2**63, 2**64, 5],
}
OF_SIZES = {
    "n / 2": lambda n: n / 2, "n // 2": lambda n: n // 2, "n % 2": lambda n: n % 2, "-n": lambda n: -n, "float": float, "root": lambda n: n ** 0.5, "max": lambda n: max(n, 3), "n > 2": lambda n: n > 2,
    "sqrt": math.sqrt, "round": lambda n: round(n / 3), "n - 2": lambda n: n - 2, "n - 1": lambda n: n - 1, "ceil": lambda n: math.ceil(n / 2), "n - n": lambda n: n - n, "2 ** -n": lambda n: 2 ** -n,
}
# --- what compiled code may leave to eager

# In replay mode: operators that take a number as part of what they are, each number being a way of its own, of which four are kept; those that run
# at once; functions that call none.
FIXED = ("addcmul", "full", "norm", "correction")
AT_ONCE = ("x // v", "x % v", "roll", "repeat", "eye", "unfold")
HOST_ONLY = ("text", "kind", "results", "truth")


def left(mode, position, sequence):
    """The reasons for which a call that came before may run eagerly; `recorded`: it is recorded when it comes the second time."""
    if mode == "call":   # numbers of numpy are no arguments of call mode, which goes on in replay mode; those beyond 64 bits are no numbers
        unsupported = {"unsupported_argument", "ran_at_once unsupported_argument"} if position in AT_ONCE else {"unsupported_argument"}
        return {"numpy": unsupported, "large": {"recorder_refused", "recorded", *unsupported}}.get(sequence, set())
    found = {"ran_at_once"} if position in AT_ONCE or sequence in ("complex", "large") else set()
    if position in FIXED:
        found |= {"recorded", "ran_at_once too_many_branches"}
    if position in ("select", "slice"):   # of which there may be nothing left
        found |= {"call_layout eager_segments", "call_layout eager_segments ran_at_once"}
    if position == "arange":
        found.add("recorded")
    return found | {"nothing"} if position in HOST_ONLY else found


def outcome(function, n, *arguments):
    torch.manual_seed(n)
    x = torch.randn(n, n) * 2
    try:
        return function(x, *arguments), x
    except Exception as error:
        return type(error).__name__, x


def same(a, b):
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        wide = [t.to(torch.complex128) for t in (a, b)]
        return a.dtype == b.dtype and a.shape == b.shape and torch.allclose(*wide, rtol=2e-3 if a.dtype == torch.half else 1e-4, equal_nan=True)
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return type(b) is dict and same(list(a.items()), list(b.items()))
    return type(a) is type(b) and (a == b or a != a and b != b)


def check(function, mode, calls, reasons):
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = Counted(function, mode=mode)
        for call in compiled.twice(calls):
            wanted, found = outcome(function, *call), outcome(compiled, *call)
            assert same(wanted, found), (call, wanted, found)
        assert not any("internal_error" in region.get("fallbacks", {}) for region in compiled.info().get("regions", []))
        compiled.expect(*reasons)


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("position", POSITIONS)
def test_numbers_that_vary(position, mode):
    for sequence, values in SEQUENCES.items():
        check(POSITIONS[position], mode, [(3, v) for v in values], left(mode, position, sequence))


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("position", SIZES)
def test_numbers_made_of_sizes(position, mode):
    for number in OF_SIZES.values():
        for order in ((4, 3, 0), (1, 2, 0)):
            reasons = left(mode, position, "sizes")
            check(lambda x: SIZES[position](x, number(x.shape[0])), mode, [(n,) for n in order], reasons if mode == "call" else reasons | {"call_layout eager_segments"})
