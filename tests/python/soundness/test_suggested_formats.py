"""Axes of size 1 have strides that address nothing, and ATen's kernels for images choose by them how a result lies. So do ours: at each size a result
lies as eager's, and no size is recorded again and again because it does not."""

import itertools
import random

import pytest
import torch
import torch.nn.functional as F

import escapement


def rows_as_image(x):
    """As behind attention: the rows of a product, seen as an image."""
    b, c, h, w = x.shape
    return (x.flatten(2).transpose(1, 2) @ torch.eye(c)).transpose(-1, -2).reshape(b, c, h, w)


MAKERS = {
    "rows": rows_as_image,
    "with residual": lambda x: (rows_as_image(x) + x) / 2,
    "residual first": lambda x: x + rows_as_image(x),
    "channels last": lambda x: (x * 2).contiguous(memory_format=torch.channels_last) + 1,
    "permuted": lambda x: (x.permute(0, 2, 3, 1) * 2).permute(0, 3, 1, 2) * x,
    "transposed": lambda x: (x.transpose(2, 3) * 2).transpose(2, 3),
    "cat": lambda x: torch.cat([rows_as_image(x), x], 1)[:, :x.shape[1]],
    "of channels last": lambda x: x.to(memory_format=torch.channels_last) * x,
}

WEIGHT = torch.randn(4, 4, 3, 3)
READERS = {
    "conv2d": lambda x: F.conv2d(x, WEIGHT[:, :x.shape[1]], padding=1),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x, WEIGHT[:x.shape[1]], padding=1),
    "group_norm": lambda x: F.group_norm(x, 1),
    "silu of group_norm": lambda x: F.silu(F.group_norm(x, 1)),
    "batch_norm": lambda x: F.batch_norm(x, torch.zeros(x.shape[1]), torch.ones(x.shape[1])),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 3, 1, 1),
    "max_pool2d": lambda x: F.max_pool2d(x, 3, 1, 1),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 2),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "bicubic": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
    "pad": lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2),
    "grid_sample": lambda x: F.grid_sample(x, torch.zeros(x.shape[0], 3, 5, 2), align_corners=False),
    "instance_norm": F.instance_norm,
}
SHAPES = ((1, 4, 6, 5), (1, 4, 3, 7), (2, 4, 3, 5), (1, 4, 6, 1), (1, 4, 1, 5), (3, 1, 4, 5), (1, 1, 4, 5), (1, 4, 1, 1), (1, 4, 6, 5), (1, 4, 9, 2),
          (2, 4, 13, 11), (0, 4, 3, 5), (2, 4, 7, 17), (2, 4, 0, 5))


def layout(x):
    """Of axes that address something; of nothing none does."""
    return () if x.numel() == 0 else tuple(stride for size, stride in zip(x.shape, x.stride()) if size > 1)


def check(f, compiled, shape):
    x = torch.randn(shape)
    try:
        expected = f(x)
    except (ValueError, RuntimeError) as error:   # a mean of one value, a window over nothing
        with pytest.raises(type(error)):
            compiled(x)
        return
    got = compiled(x)
    torch.testing.assert_close(got, expected)
    assert layout(got) == layout(expected), shape


@pytest.mark.parametrize(("maker", "reader"), [*itertools.product(MAKERS, READERS)])
def test_results_lie_as_eagers(maker, reader):
    def f(x):
        return READERS[reader](MAKERS[maker](x))

    compiled = escapement.jit(f)
    for shape in (*SHAPES, *SHAPES):
        check(f, compiled, shape)
    info = compiled.info()
    # What is joined is a recording for each set of axes of one element, and these are eight.
    reasons = {reason for region in info["regions"] for reason in region["fallbacks"]}
    assert not info["eager"] and reasons <= ({"too_many_recordings"} if maker == "cat" else set()), (info["eager"], reasons)
    assert sum(version["hits"] for region in info["regions"] for version in region["versions"]) >= len(SHAPES) // 2
    draw = random.Random(maker + reader)
    for _ in range(3):
        compiled = escapement.jit(f)
        for shape in [[draw.choice(sizes) for sizes in ((1, 1, 2, 3), (1, 4, 4), (1, 3, 6), (1, 5, 7))] for _ in range(8)]:
            check(f, compiled, shape)


PERMUTED = {str(order): lambda x, order=order: x.permute(*order) for order in itertools.permutations(range(4))}
PERMUTED |= {f"{name} times 2": lambda x, permuted=permuted: permuted(x) * 2 for name, permuted in [*PERMUTED.items()]}
PERMUTED |= {"stepped": lambda x: x[:, :, ::2, ::2], "stepped times 2": lambda x: x[:, :, ::2, ::2] * 2, "half": lambda x: x.chunk(2, 1)[0],
             "rows of channels last": lambda x: x.to(memory_format=torch.channels_last)[:, :, ::2]}


@pytest.mark.parametrize("maker", PERMUTED)
def test_images_in_any_order_of_axes(maker):
    draw = random.Random(maker)
    for reader in draw.sample(sorted(READERS.keys() - {"grid_sample", "conv2d", "conv_transpose2d"}), 4) + ["of four"]:
        read = READERS.get(reader, lambda x: F.conv2d(x, torch.ones(4, x.shape[1], 3, 3), padding=1))

        def f(x):
            return read(PERMUTED[maker](x))

        compiled = escapement.jit(f)
        for shape in [[draw.choice(sizes) for sizes in ((1, 1, 2, 3), (1, 4, 4), (1, 3, 4), (1, 5, 4))] for _ in range(7)]:
            check(f, compiled, shape)


@pytest.mark.parametrize("way", ["jit", "compile"])
@pytest.mark.parametrize("maker", ["rows", "with residual", "residual first"])
@pytest.mark.parametrize("batch", [1, 2])
def test_one_recording_serves_one_batch(way, maker, batch):
    def f(x):
        return READERS["conv2d"](F.silu(F.group_norm(READERS["conv2d"](MAKERS[maker](x)), 2)).permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2))

    torch._dynamo.reset()
    escapement.reset()
    compiled = escapement.jit(f) if way == "jit" else torch.compile(f, backend="escapement")
    for height in (6, 3, 9, 6, 4, 7, 3, 5, 13, 17):
        check(f, compiled, (batch, 4, height, 5))
    counted = escapement.stats()
    assert counted["recordings"] == 1 and counted["hits"] == 9 and counted["launches"] > 0, counted
