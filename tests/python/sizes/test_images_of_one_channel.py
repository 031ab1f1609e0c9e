"""An image with one channel, or one position, is contiguous and channels last at once. Which format its strides suggest decides how the results of
ATen's image operators lie, so that results recorded for one format must not be given for the other."""
import pytest
import torch
import torch.nn.functional as F

import escapement

WEIGHT = torch.ones(2, 1, 1, 1)

OF_ONE_CHANNEL = {
    "detached": lambda x: F.conv2d(x.detach(), WEIGHT), "of a slice": lambda x: F.conv2d(x[0:1], WEIGHT), "cut": lambda x: F.conv2d(x[:, :, 1:], WEIGHT),
    "padded": lambda x: F.conv2d(F.pad(x, (1, 1)), WEIGHT), "zeros": lambda x: F.conv2d(torch.zeros_like(x), WEIGHT),
    "cloned": lambda x: F.conv2d(x.clone(), WEIGHT), "cast": lambda x: F.conv2d(x.double(), WEIGHT.double()), "compared": lambda x: F.conv2d((x > 0).float(), WEIGHT),
    "relu": lambda x: F.conv2d(x.relu(), WEIGHT), "doubled": lambda x: F.conv2d(x + x, WEIGHT), "times": lambda x: F.conv2d(x * 2, WEIGHT),
    "gelu": lambda x: F.conv2d(F.gelu(x), WEIGHT), "joined": lambda x: torch.cat([x, x], 1), "joined results": lambda x: torch.cat([x * 2, x], 1),
    "joined, centred": lambda x: torch.cat([x - x.mean(), x], 1), "joined views": lambda x: torch.cat([x.detach(), x], 1),
    "pooled": lambda x: F.adaptive_avg_pool2d(x.detach(), 2), "enlarged": lambda x: F.interpolate(x[0:1], scale_factor=2),
    "contiguous": lambda x: F.conv2d(x.contiguous(), torch.ones(2, x.shape[1], 1, 1)),
}


def image(*sizes, last=False):
    x = torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes)))
    return x.to(memory_format=torch.channels_last) if last else x


def compare(function, calls):
    compiled = escapement.jit(function)
    for _ in range(3):
        for sizes, last in calls:
            got, expected = compiled(image(*sizes, last=last)), function(image(*sizes, last=last))
            assert got.stride() == expected.stride(), (sizes, last)
            torch.testing.assert_close(got, expected)
    info = compiled.info()
    assert not info["eager"] and info["recordings"] <= len(calls), info   # each call has a version that serves it
    return info["recordings"]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", OF_ONE_CHANNEL)
def test_one_channel(name, turned):
    calls = [((2, 1, 4, 4), True), ((2, 1, 5, 5), False), ((3, 1, 7, 2), True), ((2, 1, 4, 4), False)]
    assert compare(OF_ONE_CHANNEL[name], calls[::-1] if turned else calls) <= 2


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", ["padded", "enlarged"])
def test_one_position(name, turned):
    functions = {"padded": lambda x: F.pad(x, (1, 1)), "enlarged": lambda x: F.interpolate(x.double(), scale_factor=2)}
    calls = [((2, 3, 1, 1), False), ((2, 3, 1, 1), True), ((2, 3, 2, 2), False), ((2, 3, 2, 2), True)]
    compare(functions[name], calls[::-1] if turned else calls)


def test_another_count_of_channels():
    compare(OF_ONE_CHANNEL["contiguous"], [((3, 2, 4, 4), True), ((3, 1, 4, 4), True), ((3, 1, 4, 4), False), ((3, 2, 4, 4), False)])


def test_lines():
    def function(x):
        return F.conv1d(x.detach(), torch.ones(2, 1, 1))

    compiled = escapement.jit(function)
    for x in [torch.randn(2, 8, 1).transpose(1, 2), torch.randn(2, 1, 8)] * 3:
        assert compiled(x).stride() == function(x).stride()


BUFFER, IMAGE, SEQUENCE = torch.arange(2000.0).sin(), torch.arange(4096.0).cos().view(1, 1, 64, 64), torch.arange(2400.0).sin().view(1, 300, 8)
LINES, IMAGES, STEPS = torch.ones(4, 1, 3), torch.ones(4, 1, 3, 3), torch.ones(4, 8, 3)
PARTS = {   # of a batch of one, whose stride is that of something longer
    "lines": (lambda x: F.conv1d(x.unsqueeze(1), LINES), lambda n: BUFFER[None, 3:3 + n]), "lines, doubled": (lambda x: F.conv1d((x * 2)[:, None], LINES), lambda n: BUFFER[None, 3:3 + n]),
    "lines, centred": (lambda x: F.conv1d((x - x.mean())[:, None], LINES), lambda n: BUFFER[None, 3:3 + n]),
    "lines, joined": (lambda x: F.conv1d(torch.cat([x, x], 1)[:, None], LINES), lambda n: BUFFER[None, 3:3 + n]),
    "steps": (lambda x: F.conv1d(x.transpose(1, 2), STEPS), lambda n: SEQUENCE[:, 3:3 + n]), "steps, doubled": (lambda x: F.conv1d(x.transpose(1, 2) * 2, STEPS), lambda n: SEQUENCE[:, 3:3 + n]),
    "images": (lambda x: F.conv2d(x, IMAGES), lambda n: IMAGE[:, :, 3:3 + n, 5:5 + n]), "images, doubled": (lambda x: F.conv2d(x * 2, IMAGES), lambda n: IMAGE[:, :, 3:3 + n, 5:5 + n]),
    "images without channels": (lambda x: F.conv2d((x + 1)[:, None], IMAGES), lambda n: IMAGE[0, :, 3:3 + n, 5:5 + n]),
}


@pytest.mark.parametrize("way", ["jit", "compile"])
@pytest.mark.parametrize("name", PARTS)
@torch.no_grad()
def test_parts_of_something_longer_take_one_recording(name, way):
    function, part = PARTS[name]
    compiled = escapement.jit(function) if way == "jit" else torch.compile(function, backend="escapement")
    before = escapement.stats().get("recordings", 0)
    for n in (9, 17, 33, 12, 40, 21, 9):
        got, expected = compiled(part(n)), function(part(n))
        torch.testing.assert_close(got, expected)
        assert got.stride() == expected.stride(), n
    assert escapement.stats()["recordings"] == before + 1
