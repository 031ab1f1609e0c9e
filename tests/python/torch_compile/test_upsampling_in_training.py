"""Every mode of F.interpolate with gradients: eager's values, gradients and layouts, one library call forward and one backward, two recordings for all sizes."""
import pytest
import torch
import torch.nn.functional as F

import escapement

FORMS = {
    1: {"nearest": {}, "nearest-exact": {}, "linear": {}, "linear aligned": {"mode": "linear", "align_corners": True}},
    2: {"nearest": {}, "nearest-exact": {}, "bilinear": {}, "bilinear aligned": {"mode": "bilinear", "align_corners": True}, "bicubic": {},
        "bilinear smooth": {"mode": "bilinear", "antialias": True}, "bicubic smooth": {"mode": "bicubic", "antialias": True}},
    3: {"nearest": {}, "nearest-exact": {}, "trilinear": {}, "trilinear aligned": {"mode": "trilinear", "align_corners": True}},
}
SIZES = {1: ((2, 3, 5), (3, 3, 7), (1, 3, 4), (4, 3, 9)), 2: ((2, 3, 5, 6), (3, 3, 7, 4), (1, 3, 4, 4), (4, 3, 6, 9)), 3: ((2, 3, 3, 4, 5), (3, 3, 4, 3, 6), (1, 3, 2, 3, 4))}
CASES = [(dims, name) for dims, forms in FORMS.items() for name in forms]
TO = {"twice": {"scale_factor": 2.0}, "half again": {"scale_factor": 1.5}, "recomputed": {"scale_factor": 1.5, "recompute_scale_factor": True}, "to a size": {"size": 6}}


def step(program, x):
    x = x.detach().requires_grad_()
    result = program(x * 2)
    (result * result.detach().cos()).sum().backward()
    return result, x.grad


def compare(program, sizes, memory_format=torch.contiguous_format, dtype=torch.float32, tolerance=1e-4):
    torch.compiler.reset()
    compiled = torch.compile(program, backend="escapement")
    for one in sizes:
        x = torch.randn(one, dtype=dtype).to(memory_format=memory_format)
        for ours, eagers in zip(step(compiled, x), step(program, x)):
            torch.testing.assert_close(ours, eagers, rtol=tolerance, atol=tolerance)
            assert ours.stride() == eagers.stride() or 1 in ours.shape, (one, ours.stride(), eagers.stride())
    return escapement.stats()


@pytest.mark.parametrize("to", TO)
@pytest.mark.parametrize("dims, name", CASES)
def test_all_sizes(dims, name, to):
    if to == "recomputed" and "aligned" in name:
        pytest.skip("the same as half again")
    settings = {"mode": name.split(" ")[0], **FORMS[dims][name], **TO[to]}
    stats = compare(lambda x: F.interpolate(x, **settings) + 1, SIZES[dims])
    assert not stats.get("eager_calls") and not stats["dynamo"]["fallbacks"], stats
    assert stats["recordings"] <= (2 if to in ("twice", "to a size") else 6), stats
    if to in ("twice", "to a size"):
        assert 0 < stats.get("library_calls", 0) <= stats["calls"], stats


@pytest.mark.parametrize("name", FORMS[2])
def test_channels_last(name):
    settings = {"mode": name.split(" ")[0], **FORMS[2][name]}
    compare(lambda x: F.interpolate(x, scale_factor=2, **settings), SIZES[2], torch.channels_last)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-8), (torch.bfloat16, 5e-2)], ids=str)
@pytest.mark.parametrize("name", ["nearest", "bilinear", "bicubic"])
def test_dtypes(name, dtype, tolerance):
    compare(lambda x: F.interpolate(x, scale_factor=2, mode=name), SIZES[2], dtype=dtype, tolerance=tolerance)


def test_a_network_with_several():
    torch.manual_seed(0)
    down, up = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1), torch.nn.Conv2d(8, 3, 3, padding=1)

    def program(x):
        y = F.interpolate(torch.relu(down(x)), size=x.shape[2:], mode="bilinear", align_corners=False)
        return up(y) + F.interpolate(x, scale_factor=1.0, mode="nearest")

    stats = compare(program, ((2, 3, 8, 8), (3, 3, 12, 8), (2, 3, 8, 10)))
    assert not stats.get("eager_calls") and not stats["dynamo"]["fallbacks"], stats


def test_torchs_own_decompositions_stand_again():
    before = dict(torch.ops.aten.upsample_bilinear2d.vec.py_kernels)
    compare(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), SIZES[2][:1])
    assert torch.ops.aten.upsample_bilinear2d.vec.py_kernels == before
