"""Losses of an input and a target: every reduction, dtype and option, sizes 0 and 1, broadcasts and layouts, against eager."""

import itertools
import warnings

import pytest
import torch
import torch.nn.functional as F
from harness import assert_near_fp64, compiled, layouts, seeded, values

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
REDUCTIONS = ["none", "mean", "sum"]
LOSSES = {
    "mse": F.mse_loss, "smooth_l1": lambda x, y, **k: F.smooth_l1_loss(x, y, beta=0.3, **k), "l1_by_beta": lambda x, y, **k: F.smooth_l1_loss(x, y, beta=0.0, **k),
    "huber": lambda x, y, **k: F.huber_loss(x, y, delta=0.7, **k), "bce_with_logits": lambda x, y, **k: F.binary_cross_entropy_with_logits(x, y.sigmoid(), **k),
    "soft_margin": lambda x, y, **k: F.soft_margin_loss(x, y.sign(), **k),
}
SHAPES = [(5, 7), (1, 1), (1, 13), (13, 1), (31, 64), (0, 3)]


def arguments(shape, dtype, generator):
    return values(shape, dtype, generator, special=False), values(shape, dtype, generator, special=False)


def near(ours, eager, function, tensors):
    return assert_near_fp64(ours, eager, function(*[t.double() for t in tensors]), factor=2, floor_ulp=16)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", LOSSES)
def test_loss(name, reduction):
    def function(x, y):
        return LOSSES[name](x, y, reduction=reduction)

    for dtype in FLOATS:
        call, generator = compiled(function, 2), seeded(name)
        for shape in SHAPES:
            pair = arguments(shape, dtype, generator)
            for layout in zip(*[list(layouts(a)) for a in pair]):
                tensors = [t for _, t in layout]
                near(call(*tensors), function(*tensors), function, tensors)
        assert not call.info()["fallbacks"]


@pytest.mark.parametrize("name", LOSSES)
def test_one_recording_for_all_sizes(name):
    call, generator = compiled(lambda x, y: LOSSES[name](x, y), 2), seeded(name)
    for shape in SHAPES:
        x, y = arguments(shape, torch.float32, generator)
        near(call(x, y), LOSSES[name](x, y), LOSSES[name], (x, y))
    info = call.info()
    assert info["recordings"] == 1 and all(v["kernels"] for v in info["versions"]), info


def outcome(function, *args):
    try:
        return function(*args)
    except (RuntimeError, ValueError) as error:
        return type(error)


@pytest.mark.parametrize("name", LOSSES)
def test_sizes_that_differ(name):
    """Some broadcast, with a warning; some raise."""
    warnings.simplefilter("ignore")
    for reduction, (left, right) in itertools.product(REDUCTIONS, [((4, 5), (5,)), ((4, 5), (4, 1)), ((4, 1), (1, 5)), ((), (3,)), ((4, 5), (4, 4))]):
        def function(x, y, reduction=reduction):
            return LOSSES[name](x, y, reduction=reduction)

        generator = seeded(name)
        x, y = values(left, torch.float32, generator, False), values(right, torch.float32, generator, False)
        ours, eager = outcome(compiled(function, 2), x, y), outcome(function, x, y)
        if isinstance(eager, type):
            assert ours is eager
        else:
            near(ours, eager, function, (x, y))


@pytest.mark.parametrize("weights", [("weight",), ("pos_weight",), ("weight", "pos_weight")], ids="-".join)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_weights_of_bce_with_logits(weights, reduction):
    for dtype, shape in itertools.product(FLOATS, [(7,), (4, 7), (1, 7), (4, 1)]):
        def function(x, y, w):
            return F.binary_cross_entropy_with_logits(x, y.sigmoid(), reduction=reduction, **{name: w for name in weights})

        generator, call = seeded(weights), compiled(function, 3)
        for rows in (4, 1, 13):
            x, y = arguments((rows, 7), dtype, generator)
            w = values((rows,) * (len(shape) - 1) + shape[-1:] if shape[0] == 4 else shape, dtype, generator, False).abs()
            near(call(x, y, w), function(x, y, w), function, (x, y, w))


@pytest.mark.parametrize("name", LOSSES)
def test_of_two_dtypes(name):
    for left, right in itertools.permutations([torch.float32, torch.float64, torch.bfloat16], 2):
        generator = seeded(name)
        x, y = values((4, 5), left, generator, False), values((4, 5), right, generator, False)
        ours, eager = outcome(compiled(LOSSES[name], 2), x, y), outcome(LOSSES[name], x, y)
        assert ours is eager if isinstance(eager, type) else (ours.dtype == eager.dtype and torch.allclose(ours, eager, rtol=2e-2))
