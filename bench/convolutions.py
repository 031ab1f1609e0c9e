"""Networks of convolutions against eager: of images, volumes and lines, single ones and in batches, at one size and at several in turn. Eager once
as the model is and once with its channels last, whichever is faster. One thread, taking turns in one process, median of rounds, by the clock of
the processor. One line a cell, the worst last.

    ./dev bench convolutions [--rounds N] [--only TEXT] [--unpacked]
"""

import argparse
import copy
import statistics

import torch
import torch.nn.functional as F
import transformers as hf
from reductions import compare
from torch import nn

import escapement


def chain(*layers):
    return nn.Sequential(*layers)


def blocks(count, make):
    return [layer for _ in range(count) for layer in make()]


class UNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.down, self.middle = self.twice(3, width), self.twice(width, 2 * width)
        self.up, self.last = nn.ConvTranspose2d(2 * width, width, 2, 2), chain(self.twice(2 * width, width), nn.Conv2d(width, 1, 1))

    @staticmethod
    def twice(inner, outer):
        return chain(nn.Conv2d(inner, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU(), nn.Conv2d(outer, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU())

    def forward(self, x):
        first = self.down(x)
        return self.last(torch.cat([self.up(self.middle(F.max_pool2d(first, 2))), first], 1))


class GroupNormBlock(nn.Module):
    """As in diffusion models."""

    def __init__(self, width=64):
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(8, width) for _ in range(2))
        self.layers = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2))

    def forward(self, x):
        y = x
        for norm, layer in zip(self.norms, self.layers):
            y = layer(F.silu(norm(y)))
        return x + y


class Conformer(nn.Module):
    """The convolution module of one."""

    def __init__(self, width=128):
        super().__init__()
        self.norm, self.wide, self.narrow = nn.LayerNorm(width), nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 1)
        self.depthwise, self.batch = nn.Conv1d(width, width, 31, padding=15, groups=width), nn.BatchNorm1d(width)

    def forward(self, x):
        y = F.glu(self.wide(self.norm(x).transpose(1, 2)), 1)
        return x + self.narrow(F.silu(self.batch(self.depthwise(y)))).transpose(1, 2)


class Hidden(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).last_hidden_state


def architectures():
    yield "resnet-50", Hidden(hf.ResNetModel(hf.ResNetConfig()))
    yield "resnet-18", Hidden(hf.ResNetModel(hf.ResNetConfig(layer_type="basic", hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2])))
    yield "regnet", Hidden(hf.RegNetModel(hf.RegNetConfig()))
    yield "mobilenet-v2", Hidden(hf.MobileNetV2Model(hf.MobileNetV2Config()))
    yield "efficientnet", Hidden(hf.EfficientNetModel(hf.EfficientNetConfig(width_coefficient=1.0, depth_coefficient=1.0, image_size=224, hidden_dim=1280)))
    yield "convnext", Hidden(hf.ConvNextModel(hf.ConvNextConfig()))


def networks():
    yield "super resolution", chain(nn.Conv2d(1, 64, 9, padding=4), nn.ReLU(), nn.Conv2d(64, 32, 1), nn.ReLU(), nn.Conv2d(32, 1, 5, padding=2)), (1, 64, 64)
    yield "denoising", chain(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), *blocks(4, lambda: (nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())),
                             nn.Conv2d(32, 3, 3, padding=1)), (3, 64, 64)
    yield "digits", chain(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(6), nn.Flatten(), nn.Linear(2304, 10)), (1, 28, 28)
    yield "agent", chain(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(7)), (4, 84, 84)
    yield "little", chain(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1)), (3, 8, 8)
    yield "depthwise", chain(nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 32, 1), nn.Hardswish(), nn.Conv2d(32, 32, 5, padding=2, groups=32),
                             nn.Conv2d(32, 32, 1)), (16, 32, 32)
    yield "u-net", UNet(), (3, 64, 64)
    yield "group norms", GroupNormBlock(), (64, 32, 32)
    yield "video", chain(nn.Conv3d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool3d((1, 2, 2)), nn.Conv3d(16, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool3d(1)), (3, 8, 32, 32)
    yield "one volume", nn.Conv3d(4, 8, 3, padding=1), (4, 6, 12, 12)
    yield "conformer", Conformer(), (100, 128)
    yield "dilated lines", chain(nn.Conv1d(32, 64, 3, padding=2, dilation=2), nn.ReLU(), nn.Conv1d(64, 64, 3, padding=4, dilation=4), nn.ReLU()), (32, 200)
    yield "positions", nn.Conv1d(256, 256, 64, padding=32, groups=16), (256, 50)


def cells():
    """name, module, the inputs of one turn."""
    for name, module in architectures():
        yield f"{name}, 1 x 224 x 224", module, [torch.randn(1, 3, 224, 224)]
        yield f"{name}, 4 sizes", module, [torch.randn(1, 3, size, size) for size in (160, 224, 192, 128)]
    for name, module, size in networks():
        for batch in (1, 8):
            yield f"{name}, {batch} of {'x'.join(map(str, size))}", module, [torch.randn(batch, *size)]
        if len(size) == 3:
            yield f"{name}, 4 sizes", module, [torch.randn(1, size[0], size[1] + 4 * n, size[2]) for n in range(4)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--unpacked", action="store_true", help="beside it: what packing and the layout are worth")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    found = []
    for label, module, inputs in cells():
        if options.only not in label:
            continue
        eager, images = copy.deepcopy(module).eval(), inputs[0].dim() == 4
        last, turned = (copy.deepcopy(eager).to(memory_format=torch.channels_last), [x.to(memory_format=torch.channels_last) for x in inputs]) if images else (eager, inputs)
        compiled = escapement.jit(copy.deepcopy(eager), **({"pack_weights": False} if options.unpacked else {}))
        ours = lambda _, compiled=compiled: [compiled(x) for x in inputs]   # noqa: E731
        ours(None), ours(None)
        plain, mine = compare(lambda _, eager=eager: [eager(x) for x in inputs], ours, None, options.rounds)
        other, again = compare(lambda _, last=last: [last(x) for x in turned], ours, None, options.rounds)
        found.append((min(plain / mine, other / again), plain / mine, other / again, plain, label))
    for least, plain, other, seconds, label in sorted(found, reverse=True):
        print(f"{plain:6.2f} times eager, {other:5.2f} times eager with channels last  {label} (eager {seconds * 1e3:.2f} ms)")
    gains = [least for least, *_ in found]
    print(f"{len(gains)} cells: {statistics.geometric_mean(gains):.2f} times the faster one in the geometric mean, {min(gains):.2f} at least, {sum(gain < 1 for gain in gains)} below 1")


if __name__ == "__main__":
    main()
