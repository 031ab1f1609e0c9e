"""nll_loss and cross_entropy of targets that are classes: ranks, reductions, weights, ignored classes, sizes 0 and 1, layouts, gradients, and targets out of
range, against eager; and that no library call is left of them."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from harness import compiled

import escapement
from escapement.ledger import LEDGER

REDUCTIONS = ["none", "mean", "sum"]
SHAPES = [(5, 7), (1, 1), (13, 3), (1, 31), (3, 1), (0, 4), (2, 64)]
IMAGES = [(2, 5, 3), (1, 1, 1), (3, 2, 0), (4, 7, 5)]
FUNCTIONS = {"nll": F.nll_loss, "cross_entropy": F.cross_entropy, "smoothed": lambda *given, **named: F.cross_entropy(*given, label_smoothing=0.1, **named)}


def arguments(shape, dtype=torch.float32, ignored=None):
    """Scores and a class for each sample; some of them are the one that is ignored."""
    x = torch.randn(shape, dtype=dtype)
    classes = torch.randint(0, shape[1], shape[:1] + shape[2:])
    return x, classes if ignored is None else torch.where(torch.rand(classes.shape) < 0.3, ignored, classes)


def same(ours, eager):
    torch.testing.assert_close(ours, eager, equal_nan=True)
    assert ours.stride() == eager.stride()


def left_to_aten(call):
    return [c["target"] for v in call.info()["versions"] for c in v["calls"]]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_classes(name, reduction, weighted):
    torch.manual_seed(0)
    for dtype, ignored, shapes in itertools.product([torch.float32, torch.float64], [None, -100, 0], [SHAPES, IMAGES]):
        def function(x, t, w=None):
            return FUNCTIONS[name](x, t, weight=w, reduction=reduction, ignore_index=-100 if ignored is None else ignored)

        call = compiled(function, 3 if weighted else 2)
        for shape in shapes:
            given = (*arguments(shape, dtype, ignored), *([torch.rand(shape[1], dtype=dtype)] if weighted else []))
            same(call(*given), function(*given))
        info = call.info()
        assert not info["fallbacks"] and info["recordings"] == 1 and not left_to_aten(call), info


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_single_sample(name):
    for reduction in REDUCTIONS:
        call = compiled(lambda x, t: FUNCTIONS[name](x, t, reduction=reduction), 2)
        for classes, target in ((5, 2), (1, 0), (7, -100), (3, 1)):
            x, t = torch.randn(classes), torch.tensor(target)
            same(call(x, t), FUNCTIONS[name](x, t, reduction=reduction))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_layouts(name):
    def turn(x):
        return x.transpose(1, -1)

    for reduction in REDUCTIONS:
        call = compiled(lambda x, t: FUNCTIONS[name](turn(x), t, reduction=reduction), 2)
        for shape in ((2, 3, 5), (1, 1, 1), (4, 7, 3)):
            x, t = torch.randn(shape), torch.randint(0, shape[-1], (shape[0], shape[1]))
            same(call(x, t), FUNCTIONS[name](turn(x), t, reduction=reduction))


@pytest.mark.parametrize("backend", ["torch.compile", "call", "replay"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_targets_out_of_range(name, backend):
    def function(x, t):
        return FUNCTIONS[name](x * 2, t)

    call = torch.compile(function, backend="escapement") if backend == "torch.compile" else escapement.jit(function, mode=backend)
    for rows, classes in ((3, 5), (2, 4), (1, 1)):
        x, t = torch.randn(rows, classes), torch.zeros(rows, dtype=torch.long)
        same(call(x, t), function(x, t))
        for wrong in (classes, -1, -101):
            bad = t.clone()
            bad[-1] = wrong
            with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
                call(x, bad)
        same(call(x, t), function(x, t))


def test_wrong_sizes_and_types_are_eagers_to_refuse():
    call = compiled(lambda x, t: F.cross_entropy(x, t), 2)
    same(call(torch.ones(3, 5), torch.tensor([1, 2, 0])), F.cross_entropy(torch.ones(3, 5), torch.tensor([1, 2, 0])))
    for x, t in ((torch.ones(3, 5), torch.tensor([1, 2])), (torch.ones(3, 0), torch.tensor([0, 0, 0])), (torch.ones(2, 5, 4), torch.zeros(2, 3, dtype=torch.long)),
                 (torch.ones(3, 5), torch.tensor([1, 2, 0], dtype=torch.int32))):
        try:
            F.cross_entropy(x, t)
        except Exception as error:
            with pytest.raises(type(error)):
                call(x, t)
        else:
            raise AssertionError("eager takes it")


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name, reduction, weighted):
    """One compile for all sizes; the library takes part in none of it."""
    torch.manual_seed(1)

    def program(x, t, w):
        return FUNCTIONS[name]((x * 1.5).log_softmax(1) if name == "nll" else x * 1.5, t, weight=w, reduction=reduction).sum() * 2

    call = torch.compile(program, backend="escapement")
    for shape in [(5, 7), (1, 1), (13, 3), (1, 31), (3, 1), (2, 64)]:
        x, t = arguments(shape, ignored=-100)
        t[0] = 0   # one that counts: else the mean is of nothing
        w = torch.rand(shape[1]) + 0.5 if weighted else None
        pair, before = [x.clone().requires_grad_() for _ in range(2)], escapement.stats().get("launches", 0)
        for f, leaf in zip((call, program), pair):
            f(leaf, t, w).backward()
        same(pair[0].grad, pair[1].grad)
        assert escapement.stats().get("launches", 0) >= before + 2 or shape == (5, 7)   # the first call is the recording
    assert (LEDGER.counters()["compiles"], LEDGER.counters()["specialised_dims"]) == (1, 0)
    calls = [c["target"] for function in LEDGER.functions() for region in function.regions() for v in region.info()["versions"] for c in v["calls"]]
    assert not calls, calls


def test_the_gradient_looks_at_targets_too():
    def function(g, x, t, total):
        return torch.ops.aten.nll_loss_backward(g * 2, x, t, None, 1, -100, total)

    call = compiled(function, 4)
    for rows, classes in ((3, 5), (2, 4)):
        given = torch.tensor(1.5), torch.randn(rows, classes), torch.zeros(rows, dtype=torch.long), torch.tensor(float(rows))
        same(call(*given), function(*given))
        given[2][-1] = classes
        with pytest.raises(IndexError, match="out of bounds"):
            call(*given)
