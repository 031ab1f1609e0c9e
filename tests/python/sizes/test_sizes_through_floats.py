"""Sizes that the host computes with floats: one recording serves every size where the float is rounded or compared, and never another number than Python's."""

import math

import pytest
import torch
import torch.nn.functional as F

import escapement

SIZES = ((7, 9), (10, 10), (3, 20), (16, 5), (5, 3), (9, 9), (12, 8), (20, 20), (13, 11), (1, 1), (0, 4), (31, 2), (64, 7), (101, 3))
HARD = (1, 3, 5, 10, 11, 15, 20, 29, 30, 35, 45, 55, 57, 58, 70, 90, 100, 110, 115, 129, 200, 490, 990, 1000, 4503599627370497)   # products near whole numbers


def tensor(*shape):
    return torch.arange(1.0, math.prod(shape) + 1).reshape(shape) / 8


ROUNDED = {   # one recording
    "floor": lambda x: x[:math.floor(x.shape[0] * 0.9)].sum(), "ceil": lambda x: x.new_ones(math.ceil(x.shape[0] * 0.9)).cumsum(0),
    "trunc": lambda x: x.new_ones(math.trunc(x.shape[0] * 0.9)).cumsum(0), "round": lambda x: x.new_ones(round(x.shape[0] * 0.5)).cumsum(0),
    "of a negative": lambda x: x.new_ones(-math.floor(x.shape[0] * -0.7)).cumsum(0), "below zero": lambda x: x + math.trunc(x.shape[0] * 0.3 - 2.5),
    "round below zero": lambda x: x + round(x.shape[0] * 0.5 - 3), "power": lambda x: x.new_ones(math.floor(x.shape[0] ** 0.5)).cumsum(0),
    "cube root": lambda x: x.new_ones(math.ceil(x.shape[0] ** (1 / 3))).cumsum(0), "sqrt": lambda x: x.new_ones(math.floor(torch.sym_sqrt(x.shape[0] + 0))).cumsum(0),
    "of two": lambda x: x.new_ones(math.floor(x.shape[0] * 0.5 + x.shape[1] * 0.25)).cumsum(0), "difference": lambda x: x + math.floor(x.shape[0] * 0.5 - x.shape[1] * 0.3),
    "of a rounded one": lambda x: x.new_ones(math.ceil(math.floor(x.shape[0] * 0.7) / 3)).cumsum(0), "remainder": lambda x: x.new_ones(math.floor(x.shape[0] * 0.7) % 3 + 1),
    "larger": lambda x: x.new_ones(math.floor(torch.sym_max(x.shape[0] * 0.5, x.shape[1] * 0.7))).cumsum(0),
    "twice": lambda x: x[:math.floor(x.shape[0] * 0.7)] + x.new_ones(math.floor(x.shape[0] * 0.7), 1), "a view": lambda x: x.new_ones(math.floor(x.shape[0] * 0.7) * 6).view(-1, 2, 3) + 1,
    "an index": lambda x: x[math.floor(x.shape[0] * 0.7) - 1:], "expanded": lambda x: x[:1].expand(math.ceil(x.shape[0] * 0.5), -1) * 2 if x.shape[0] else x,
    "pooled": lambda x: F.adaptive_avg_pool2d(F.pad(x, (0, 1, 0, 1))[None], (math.ceil(x.shape[0] * 0.5 + 0.1), 2)),
    "interpolate": lambda x: F.interpolate(F.pad(x, (0, 2, 0, 2))[None, None], scale_factor=0.7, mode="bilinear")[0, 0],
    "recomputed": lambda x: F.interpolate(F.pad(x, (0, 2, 0, 2))[None, None], scale_factor=0.7, mode="bilinear", recompute_scale_factor=True)[0, 0],
    "a number too": lambda x: x * math.floor(x.shape[0] * 0.7) + x.shape[0] * 0.7, "written": lambda x: x.clone().index_fill_(0, torch.arange(math.floor(x.shape[0] * 0.4)), 7.0),
}
VERSIONS = {"expanded": 2, "an index": 4}   # at most
VIEWS = ("an index",)

COMPARED = {   # as many recordings as outcomes
    "less": lambda x: x * 2 if x.shape[0] * 0.7 < 5.5 else x * 3, "at most": lambda x: x * 2 if x.shape[0] * 0.5 <= 5 else x * 3,
    "more": lambda x: x * 2 if x.shape[0] * 0.7 > x.shape[1] * 0.5 else x * 3, "at least": lambda x: x * 2 if x.shape[0] / 3 >= 3.0 else x * 3,
    "equal": lambda x: x * 2 if x.shape[0] * 0.5 == x.shape[1] * 0.5 else x * 3, "unequal": lambda x: x * 2 if x.shape[0] / 3 != x.shape[1] / 4 else x * 3,
    "is a whole number": lambda x: x * 2 if (x.shape[0] / 2).is_integer() else x * 3, "finite": lambda x: x * 2 if x.shape[0] * 0.7 < math.inf else x * 3,
    "the smaller": lambda x: x * min(x.shape[0] * 0.5, x.shape[1] * 0.7), "the larger, rounded": lambda x: x.new_ones(math.floor(max(x.shape[0] * 0.5, x.shape[1] * 0.7))),
    "absolute": lambda x: x.new_ones(math.floor(abs(x.shape[0] * 0.5 - 4))).cumsum(0), "clamped": lambda x: x * max(0.5, min(x.shape[0] / 7, 2.0)),
}
OUTCOMES = {"clamped": 3, "finite": 1}


def check(f, shapes):
    escapement.reset()
    compiled = escapement.jit(f)
    for shape in (*shapes, *shapes):
        x = tensor(*shape)
        torch.testing.assert_close(compiled(x), f(x), rtol=1e-5, atol=1e-5, msg=lambda text: f"{shape}: {text}")
    return escapement.stats()


@pytest.mark.parametrize("name", ROUNDED)
def test_one_recording_serves_what_is_rounded(name):
    stats = check(ROUNDED[name], SIZES)
    most = VERSIONS.get(name, 1)
    assert stats["recordings"] <= most and stats["hits"] >= 2 * len(SIZES) - most, stats
    assert stats.get("launches", 0) + stats.get("library_calls", 0) >= stats["hits"] // 2 or name in VIEWS, stats   # of nothing, nothing runs


@pytest.mark.parametrize("name", COMPARED)
def test_a_recording_for_each_outcome_of_a_comparison(name):
    stats, outcomes = check(COMPARED[name], SIZES), OUTCOMES.get(name, 2)
    assert stats["recordings"] <= outcomes and stats["hits"] >= 2 * len(SIZES) - outcomes and stats["launches"] >= stats["hits"] // 2, stats


@pytest.mark.parametrize("factor", [0.7, 0.1, 0.29, 1 / 3, 1.1, 0.57, 1.15, 2.675, 1e-3, 1e4])
@pytest.mark.parametrize("rounding", [math.floor, math.ceil, math.trunc, round])
def test_the_number_is_pythons(rounding, factor):
    """Where a product lies next to a whole number the last bit decides."""
    escapement.reset()
    compiled = escapement.jit(lambda x, n: x + rounding(n * factor) + 0 * rounding(-(n * factor)))
    x = torch.zeros(1, dtype=torch.int64)
    served = [n for n in HARD if n * factor < 2**31]   # wider numbers are read
    for n in served:
        assert compiled(x, n).item() == rounding(n * factor) + 0 * rounding(-(n * factor)), n
    stats = escapement.stats()
    assert stats["recordings"] <= 3 and stats["hits"] >= len(served) - 3, stats


def test_errors_are_eagers():
    """A size at which the arithmetic divides by zero, or leaves the floats, or 64 bits, is not served by a recording of another one."""
    cases = ((lambda x: x.new_ones(math.floor(8.0 / x.shape[0])), (4, 2), (0, 2), ZeroDivisionError),
             (lambda x: x * 2 if 8.0 / x.shape[0] > 1 else x * 3, (4, 2), (0, 2), ZeroDivisionError),
             (lambda x: x + math.floor(1e200 ** x.shape[0]) * 0, (0, 2), (2, 2), OverflowError),
             (lambda x: x.new_ones(math.floor(x.shape[0] * 0.5 - 1)), (4, 2), (1, 2), RuntimeError))
    for f, good, bad, error in cases:
        escapement.reset()
        compiled = escapement.jit(f)
        for shape in (good, bad, good, bad):
            x = tensor(*shape)
            if shape == good:
                torch.testing.assert_close(compiled(x), f(x))
                continue
            for run in (f, compiled):
                with pytest.raises(error):
                    run(x)


def test_declared_dims_hold():
    rows = escapement.Dim("rows", 1, 64)
    compiled = escapement.jit(lambda x: x[:math.floor(x.shape[0] * 0.7)] * 2 if x.shape[0] * 0.7 < 50 else x, dims={"x": {0: rows}}, strict=False)
    for n in (5, 9, 1, 31, 64):
        torch.testing.assert_close(compiled(tensor(n, 2)), tensor(n, 2)[:math.floor(n * 0.7)] * 2)


def test_replays_in_packages_and_modules():
    class Crop(torch.nn.Module):
        def forward(self, x):
            return x[:math.floor(x.shape[0] * 0.7), :math.ceil(x.shape[1] * 0.3)] * 2

    module = Crop()
    compiled = escapement.jit(module)
    escapement.reset()
    for shape in SIZES:
        torch.testing.assert_close(compiled(tensor(*shape)), module(tensor(*shape)))
    assert escapement.stats()["recordings"] <= 1
