"""repeat, repeat_interleave by a number, roll and flip: forms, dtypes, layouts, sizes 0 and 1, numbers that differ between calls, against eager; fused, and one
recording for all sizes."""

import pytest
import torch
from harness import compiled, layouts

import escapement

DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
SHAPES = [(5, 7), (1, 1), (3, 1), (1, 13), (0, 4), (4, 0), (2, 3)]
FORMS = {
    "repeat": lambda x: x.repeat(2, 3), "repeat in front": lambda x: x.repeat(2, 1, 3), "repeat by one": lambda x: x.repeat(1, 1), "repeat by none": lambda x: x.repeat(0, 2),
    "tile": lambda x: torch.tile(x, (2,)), "interleave rows": lambda x: x.repeat_interleave(3, 0), "interleave columns": lambda x: x.repeat_interleave(2, dim=-1),
    "interleave by one": lambda x: x.repeat_interleave(1, 1), "interleave by none": lambda x: x.repeat_interleave(0, 1), "interleave all": lambda x: x.repeat_interleave(2),
    "roll": lambda x: x.roll(1, 0), "roll back": lambda x: torch.roll(x, -2, 1), "roll both": lambda x: x.roll((1, -3), (0, 1)), "roll all": lambda x: x.roll(4),
    "roll twice": lambda x: x.roll((1, 1), (0, 0)), "roll far": lambda x: x.roll(100, 1), "roll by none": lambda x: x.roll(0, 0),
    "flip": lambda x: x.flip(0), "flip columns": lambda x: x.flip(-1), "flip both": lambda x: x.flip(0, 1), "flip none": lambda x: x.flip(()), "flipud": torch.flipud, "fliplr": torch.fliplr,
}


def same(ours, eager):
    torch.testing.assert_close(ours, eager, rtol=0, atol=0)
    assert ours.stride() == eager.stride() and ours.dtype == eager.dtype


@pytest.mark.parametrize("name", FORMS)
def test_form(name):
    for dtype in DTYPES:
        call = compiled(FORMS[name], 1)
        for shape in SHAPES:
            x = torch.randn(shape).to(dtype)
            for _, laid in layouts(x):
                same(call(laid), FORMS[name](laid))
        assert not call.info()["fallbacks"]


@pytest.mark.parametrize("name", sorted(set(FORMS) - {"interleave all", "repeat by one", "tile", "flip columns", "flip both", "flip none", "fliplr"}))
def test_one_kernel_for_all_sizes(name):
    def function(x):
        return FORMS[name](x * 2) + 1

    call = compiled(function, 1)
    for shape in SHAPES:
        x = torch.randn(shape)
        torch.testing.assert_close(call(x), function(x))
    info = call.info()
    assert info["recordings"] == 1 and not info["fallbacks"], info
    assert not [c["target"] for v in info["versions"] for c in v["calls"]], info


@pytest.mark.parametrize("way", ["torch.compile", "call", "replay"])
@pytest.mark.parametrize("form", ["x.repeat(n, 2)", "x.repeat_interleave(n, 0)", "x.roll(n, 0)", "x.roll(-n, 1)", "x.roll(n)"])
def test_numbers_that_differ(form, way):
    function = eval(f"lambda x, n: {form} * 2")
    call = torch.compile(function, backend="escapement") if way == "torch.compile" else escapement.jit(function, mode=way)
    for n, shape in ((2, (5, 7)), (3, (4, 3)), (1, (1, 1)), (0, (3, 2)), (9, (2, 5)), (4, (0, 3))):
        x = torch.randn(shape)
        same(call(x, n), function(x, n))


@pytest.mark.parametrize("wrong", ["x.repeat(-1, 2)", "x.repeat(2)", "x.repeat_interleave(-1, 0)", "x.roll((1, 2), (0,))", "x.roll(1, 5)", "x.roll((1, 2))"])
def test_what_eager_refuses(wrong):
    function = eval(f"lambda x: {wrong}")
    call = compiled(function, 1)
    for shape in ((3, 4), (0, 2)):
        try:
            function(torch.ones(shape))
        except Exception as error:
            with pytest.raises(type(error)):
                call(torch.ones(shape))
        else:
            same(call(torch.ones(shape)), function(torch.ones(shape)))


def test_sequences_from_behind():
    """Both directions of a sequence, as recurrent and state-space models have them."""
    def function(x):
        return torch.cat([x * 2, (x * 3).flip(1)], -1).flip(0)

    call = compiled(function, 1)
    for shape in ((2, 7, 3), (1, 1, 1), (3, 13, 5), (0, 4, 2), (2, 0, 3)):
        x = torch.randn(shape)
        same(call(x), function(x))
    assert not call.info()["fallbacks"]


def test_windows_that_shift():
    """As Swin transformers have them: rolled, cut in windows, and rolled back."""
    def function(x):
        b, h, w, c = x.shape
        turned = (x + 1).roll((-2, -2), (1, 2)).reshape(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        back = (turned * 2).reshape(b, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return back.roll((2, 2), (1, 2))

    call = compiled(function, 1)
    for shape in ((2, 8, 8, 3), (1, 4, 4, 1), (3, 12, 8, 5), (0, 4, 8, 2)):
        x = torch.randn(shape)
        same(call(x), function(x))
    assert call.info()["recordings"] == 1 and not call.info()["fallbacks"]
