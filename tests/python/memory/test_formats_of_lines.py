"""Convolutions of lines: ATen makes images of one row of them, whose memory format strides of axes of size 1 decide. What comes out lies as in eager, at
every size, also where an argument has the same sizes and other strides along such axes than the one that was recorded.
"""

import pytest
import torch
import torch.nn.functional as F

import escapement

WEIGHTS = {channels: torch.randn(6, channels, 3) for channels in (1, 4)}
OPERATORS = {
    "padded": lambda x, w: F.conv1d(x, w, padding=1), "longer": lambda x, w: F.conv1d(x, w, padding=2), "steps": lambda x, w: F.conv1d(x, w, padding=2, stride=2),
    "one position": lambda x, w: F.conv1d(x, w[..., :1]), "same": lambda x, w: F.conv1d(x, w, padding="same"), "bias": lambda x, w: F.conv1d(x, w, torch.ones(6), padding=2).relu() + 1,
    "each channel": lambda x, w: F.conv1d(x, w[:x.shape[1], :1], padding=2, groups=x.shape[1]), "transposed": lambda x, w: F.conv_transpose1d(x, w.transpose(0, 1).contiguous(), stride=2),
    "two": lambda x, w: F.conv1d(F.conv1d(x, w, padding=2), torch.ones(3, 6, 3), padding=1), "image": lambda x, w: F.conv2d(x[:, :, None], w[:, :, None], padding=1),
}
MAKERS = {
    "natural": lambda n, c, t: torch.randn(n, c, t), "turned": lambda n, c, t: torch.randn(n, t, c).transpose(1, 2), "lines first": lambda n, c, t: torch.randn(c, n, t).transpose(0, 1),
    "reversed": lambda n, c, t: torch.randn(t, c, n).permute(2, 1, 0), "part": lambda n, c, t: torch.randn(n, c, t + 3)[..., :t], "turned part": lambda n, c, t: torch.randn(n, t, c + 2)[..., :c].transpose(1, 2),
}
SIZES = [(2, 4, 5), (3, 4, 1), (1, 4, 5), (1, 4, 1), (3, 1, 6), (1, 1, 1), (2, 4, 2), (1, 1, 3), (2, 1, 1)]


def same_layout(ours, eager):
    torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)
    seen = [stride for size, stride in zip(eager.shape, eager.stride()) if size > 1]
    assert [stride for size, stride in zip(ours.shape, ours.stride()) if size > 1] == seen, (tuple(eager.shape), ours.stride(), eager.stride())


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("made", [lambda x: x, lambda x: x * 2], ids=["given", "computed"])
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", OPERATORS)
@torch.no_grad()
def test_lines_at_all_sizes(name, maker, made, mode):
    def program(x, w):
        return OPERATORS[name](made(x), w)

    function = escapement.jit(program, mode=mode)
    for n, c, t in SIZES + SIZES[:3]:
        x = MAKERS[maker](n, c, t)
        same_layout(function(x, WEIGHTS[c]), program(x, WEIGHTS[c]))


@pytest.mark.parametrize("sizes", [(2, 1, 5), (2, 4, 1), (1, 1, 1), (1, 1, 5), (2, 4, 5)])
@pytest.mark.parametrize("name", OPERATORS)
@torch.no_grad()
def test_lines_of_the_same_sizes_that_lie_otherwise(name, sizes):
    """Contiguous they are all, where an axis of size 1 has this stride or another."""
    def program(x, w):
        return OPERATORS[name](x * 2, w), OPERATORS[name](x, w)

    function = escapement.jit(program)
    for maker in [*MAKERS, *MAKERS]:
        x, w = MAKERS[maker](*sizes), WEIGHTS[sizes[1]]
        for ours, eager in zip(function(x, w), program(x, w), strict=True):
            same_layout(ours, eager)
    before = escapement.stats()["recordings"]
    for maker in MAKERS:
        function(MAKERS[maker](*sizes), WEIGHTS[sizes[1]])
    assert escapement.stats()["recordings"] == before


@pytest.mark.parametrize("maker", ["natural", "turned"])
@torch.no_grad()
def test_long_lines_are_one_recording(maker):
    escapement.reset()
    function = escapement.jit(lambda x, w: F.conv1d(x, w, padding=2).relu())
    for n, t in ((2, 5), (1, 7), (3, 2), (8, 31), (1, 2)):
        function(MAKERS[maker](n, 4, t), WEIGHTS[4])
    assert escapement.stats()["recordings"] == 1 and escapement.stats()["hits"] == 4, escapement.stats()


IMAGES = {"natural": lambda n, c, h, w: torch.randn(n, c, h, w), "channels last": lambda n, c, h, w: torch.randn(n, h, w, c).permute(0, 3, 1, 2)}
OF_IMAGES = {
    "convolution": lambda x: F.conv2d(x, torch.ones(6, 1, 3, 3), padding=1), "computed": lambda x: F.conv2d(x * 2, torch.ones(6, 1, 3, 3), padding=1),
    "pooled": lambda x: F.conv2d(F.max_pool2d(x, 2, 1, 1), torch.ones(6, 1, 3, 3), padding=1), "pool": lambda x: F.avg_pool2d(x.expand(-1, 3, -1, -1), 2, 1, 1),
}


@pytest.mark.parametrize("name", OF_IMAGES)
@torch.no_grad()
def test_images_of_one_channel_that_lie_otherwise(name):
    function = escapement.jit(OF_IMAGES[name])
    for maker in ("natural", "channels last", "natural", "channels last"):
        for sizes in ((2, 1, 5, 5), (1, 1, 7, 4), (3, 1, 1, 5), (2, 1, 5, 1)):
            x = IMAGES[maker](*sizes)
            same_layout(function(x), OF_IMAGES[name](x))


ONES = {**IMAGES, "one of rows": lambda n, c, h, w: torch.randn(h, w, c).permute(2, 0, 1)[None].expand(n, -1, -1, -1), "part": lambda n, c, h, w: torch.randn(n, h, w, c + 1)[..., :c].permute(0, 3, 1, 2)}


@pytest.mark.parametrize("made", [lambda x: x, lambda x: x * 2, lambda x: x.transpose(2, 3)], ids=["given", "computed", "turned"])
@pytest.mark.parametrize("kernel", [1, 3])
@torch.no_grad()
def test_one_image_that_lies_otherwise(kernel, made):
    """A new axis in front of an image with its channels innermost has a stride that suggests nothing."""
    def program(x, w):
        return F.conv2d(made(x), w, padding=kernel // 2)

    function, w = escapement.jit(program), torch.randn(6, 3, kernel, kernel)
    for sizes in ((1, 3, 5, 4), (2, 3, 4, 5), (1, 3, 1, 4), (1, 3, 1, 1)):
        for maker in ("channels last", "one of rows", "natural", "part", "one of rows"):
            x = ONES[maker](*sizes)
            same_layout(function(x, w), program(x, w))


@torch.no_grad()
def test_kernels_of_one_position_that_lie_otherwise():
    """A weight with channels last suggests it, also where its kernel has one position."""
    function = escapement.jit(lambda x, w: F.conv2d(x, w))
    natural = torch.randn(6, 3, 1, 1)
    for w in (natural, natural.to(memory_format=torch.channels_last), natural, natural.clone(memory_format=torch.channels_last)):
        x = torch.randn(2, 3, 4, 5)
        same_layout(function(x, w), F.conv2d(x, w))


def image(n, c, h, w):
    return torch.randn(n, c, h, w)


NATURAL = {
    "enlarged": (lambda x: F.interpolate(x, scale_factor=2.0), image), "pooled": (lambda x: F.max_pool2d(x, 2, 1, 1), image),
    "convolved": (lambda x: F.conv2d(x, torch.ones(6, 3, 3, 3), padding=1), image), "channels last": (lambda x: F.conv2d(x, torch.ones(6, 3, 3, 3), padding=1), IMAGES["channels last"]),
    "one channel": (lambda x: F.conv2d(x, torch.ones(6, 1, 3, 3), padding=1), lambda n, c, h, w: image(n, 1, h, w)),
    "a matrix enlarged": (lambda x: F.interpolate(x[None, None], scale_factor=2.0), lambda n, c, h, w: torch.randn(h, w)),
    "a matrix pooled": (lambda x: F.avg_pool2d(x[None, None], 2, 1, 1), lambda n, c, h, w: torch.randn(h, w)),
}


@pytest.mark.parametrize("name", NATURAL)
@torch.no_grad()
def test_natural_images_are_one_recording_at_all_sizes(name):
    """Also where rows, columns and images are one: what makes an image natural is compared once, not each stride with the next."""
    escapement.reset()
    (program, maker), shapes = NATURAL[name], [(2, 5, 4), (3, 4, 7), (1, 5, 6), (2, 1, 5), (2, 5, 1), (1, 1, 1), (3, 1, 1), (1, 5, 1), (1, 1, 4)]
    function = escapement.jit(program)
    for n, h, w in shapes:
        x = maker(n, 3, h, w)
        ours, eager = function(x), program(x)
        torch.testing.assert_close(ours, eager)
        assert ours.stride() == eager.stride(), (n, h, w)
    assert escapement.stats()["recordings"] == 1 and escapement.stats()["hits"] == len(shapes) - 1, escapement.stats()
