"""Training on images whose channels lie last, which is how convolutions want them: layers behind a convolution x batches down to one. Forward, backward and what is
compiled of both. (A pool to one position ends in as_strided_, whose gradient writes over all of a tensor: it ran eagerly.)"""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import escapement


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class SqueezeAndExcitation(nn.Module):
    def __init__(self):
        super().__init__()
        self.squeeze, self.excite = nn.Conv2d(4, 2, 1), nn.Conv2d(2, 4, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(x, 1)))))


class NextBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.norm, self.up, self.down = nn.Conv2d(4, 4, 7, padding=3, groups=4), nn.LayerNorm(4), nn.Linear(4, 16), nn.Linear(16, 4)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(self.wide(x).permute(0, 2, 3, 1))))).permute(0, 3, 1, 2)


LAYERS = {
    "to one position": nn.AdaptiveAvgPool2d(1), "and flat": nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), "twice": nn.Sequential(nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1)),
    "squeeze and excitation": SqueezeAndExcitation(), "to two": nn.AdaptiveAvgPool2d(2), "largest": nn.AdaptiveMaxPool2d(1), "average": nn.AvgPool2d(2), "max": nn.MaxPool2d(3, 2, 1),
    "mean": Function(lambda x: x.mean((2, 3))), "mean kept": Function(lambda x: x.mean((2, 3), keepdim=True)), "batch norm": nn.BatchNorm2d(4), "group norm": nn.GroupNorm(2, 4),
    "instance norm": nn.InstanceNorm2d(4, affine=True), "transposed": nn.ConvTranspose2d(4, 3, 2, 2), "by channels": nn.Conv2d(4, 4, 3, padding=1, groups=4), "points": nn.Conv2d(4, 6, 1),
    "strided": nn.Conv2d(4, 6, 3, 2, 1, bias=False), "nearest": nn.Upsample(scale_factor=2), "bilinear": nn.Upsample(scale_factor=2, mode="bilinear"), "shuffled": nn.PixelShuffle(2),
    "unshuffled": nn.PixelUnshuffle(2), "padded": nn.ZeroPad2d(1), "reflected": nn.ReflectionPad2d(1), "cat": Function(lambda x: torch.cat([x, x.relu()], 1)),
    "chunk": Function(lambda x: torch.mul(*x.chunk(2, 1))), "prelu": nn.PReLU(4), "hardswish": nn.Hardswish(), "next": NextBlock(), "flat": nn.Flatten(),
    "tokens": Function(lambda x: x.flatten(2).transpose(1, 2).softmax(-1)), "amax": Function(lambda x: x.amax((2, 3))), "windows": nn.Unfold(3), "channels": nn.ChannelShuffle(2),
    "response": nn.LocalResponseNorm(3), "residual": Function(lambda x: F.relu(x + F.avg_pool2d(x, 3, 1, 1))), "view": Function(lambda x: x.reshape(x.shape[0], 2, -1).sum(-1)),
    "turned": Function(lambda x: x.permute(0, 2, 3, 1).contiguous().sum(-1)), "rolled": Function(lambda x: x.roll((1, 1), (2, 3))), "softmax": Function(lambda x: x.softmax(1)),
    "power": nn.LPPool2d(2, 2), "deviation": Function(lambda x: x.std((2, 3))), "normalized": Function(lambda x: F.normalize(x, dim=1)), "gated": nn.GLU(1),
    "to a format": Function(lambda x: x.contiguous().relu().to(memory_format=torch.channels_last)), "flipped": Function(lambda x: x.flip(3)),
}
SHAPES = ((5, 6), (3, 8), (2, 6), (1, 6), (4, 7))


POOLS = "to one position", "and flat", "squeeze and excitation"


@pytest.mark.parametrize("layer, channels", [*((name, 3) for name in LAYERS), *((name, 1) for name in POOLS)])
def test_images(layer, channels):
    torch.compiler.reset()
    escapement.reset()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(channels, 4, 3, padding=1), copy.deepcopy(LAYERS[layer])).to(memory_format=torch.channels_last)
    eager, compiled = copy.deepcopy(net), torch.compile(net, backend="escapement")
    for batch, size in SHAPES:
        if layer in ("unshuffled", "power") and size % 2:
            continue
        x = torch.randn(batch, channels, size, size).to(memory_format=torch.channels_last)
        ours, wanted = compiled(x), eager(x)
        torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-4)
        gradient = torch.randn_like(wanted)
        ours.backward(gradient), wanted.backward(gradient)
        for one, other in zip(net.parameters(), eager.parameters()):
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-3)
    stats = escapement.stats()
    assert stats["dynamo"]["fallbacks"] == {} and stats.get("recorder_refused", 0) == 0 and stats.get("storage_access", 0) == 0, stats
    assert stats["dynamo"]["compiles"] <= 2 and stats["recordings"] <= 4 and stats.get("launches", 0) + stats["library_calls"] > 0


@pytest.mark.parametrize("layer", POOLS)
def test_pools_of_no_image_and_of_primes(layer):
    """A batch of none and one of one have a version each, all others one; both graphs run kernels of ours."""
    torch.compiler.reset()
    escapement.reset()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), copy.deepcopy(LAYERS[layer])).to(memory_format=torch.channels_last)
    eager, compiled = copy.deepcopy(net), torch.compile(net, backend="escapement")
    for batch in (5, 3, 7, 11, 0, 1, 2):
        x = torch.randn(batch, 3, 7, 7).to(memory_format=torch.channels_last)
        ours, wanted = compiled(x), eager(x)
        gradient = torch.randn_like(wanted)
        ours.backward(gradient), wanted.backward(gradient)
        torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-4)
        for one, other in zip(net.parameters(), eager.parameters()):
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-3)
    stats = escapement.stats()
    assert stats["dynamo"]["compiles"] <= 3 and stats["recordings"] <= 6 and stats["dynamo"]["fallbacks"] == {} and stats.get("storage_access", 0) == 0
    assert stats["hits"] >= 8 and stats["launches"] > stats["hits"]
