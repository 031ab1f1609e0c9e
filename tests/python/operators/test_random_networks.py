"""Random networks of convolutions, poolings, views, writes and element-wise operators against eager, at several sizes, in call and replay mode: values near
the exact ones, eager's strides and shared memory, and the same bits when a call comes again.

A few in a run of the tests; `python test_random_networks.py SECONDS [SEED]` goes on and prints the networks that fail.
"""

import copy
import random
import sys
import time
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import escapement
from escapement.core import core

SIZES = [(2, 12, 10), (1, 9, 8), (3, 12, 10), (1, 16, 17)]


def window(rng, axes):
    kernel = tuple(rng.choice([1, 1, 2, 3, 3, 5]) for _ in range(axes))
    stride, dilation = rng.choice([1, 1, 1, 2]), rng.choice([1, 1, 1, 2])
    padding = rng.choice(["same", "valid"]) if stride == 1 and rng.random() < 0.2 else tuple(dilation * (k // 2) for k in kernel)
    return {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}


def convolution(rng, channels):
    groups = rng.choice([1, 1, 1, 2, channels])
    made = rng.choice([channels, channels, 2 * channels, 8])
    made = made if made % groups == 0 else channels
    if rng.random() < 0.2:
        stride = rng.choice([1, 2, 3])
        return nn.ConvTranspose2d(channels, made, rng.choice([1, 2, 3]), stride, padding=rng.choice([0, 0, 1]), output_padding=rng.randrange(stride), groups=groups), made
    return nn.Conv2d(channels, made, groups=groups, bias=rng.random() < 0.6, **window(rng, 2)), made


# What stands between: each takes an image (and an older one of the same network) and gives one. `None`: it has no layer of its own.
PLAIN = [torch.relu, F.silu, torch.tanh, lambda x: x * 2 + 1, lambda x: x - x.mean((2, 3), keepdim=True), lambda x: x * x.amax(1, keepdim=True).sigmoid(), lambda x: F.pad(x, (1, 1)),
         lambda x: x.softmax(1), lambda x: x[:, :, 1:] if x.shape[2] > 3 else x, lambda x: x.transpose(2, 3), lambda x: x.flip(3), lambda x: x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2),
         lambda x: F.max_pool2d(x, 2, ceil_mode=True), lambda x: F.avg_pool2d(x, 3, 1, 1), lambda x: F.adaptive_avg_pool2d(x, (6, 5)), lambda x: F.interpolate(x, scale_factor=2),
         lambda x: x.clone().mul_(0.5), lambda x: x.relu_() if not x._is_view() else x, lambda x: x.flatten(2).unflatten(2, x.shape[2:]), lambda x: torch.cat([x[:, 1:], x[:, :1]], 1),
         lambda x: F.layer_norm(x.permute(0, 2, 3, 1), (x.shape[1],)).permute(0, 3, 1, 2), lambda x: F.group_norm(x, 1), lambda x: x.contiguous(memory_format=torch.channels_last),
         lambda x: x.masked_fill(x > 1, 0.5), lambda x: x.cumsum(2) * 0.1, lambda x: F.local_response_norm(x, 2), lambda x: torch.stack([x, x.relu()]).sum(0)]
BOTH = [lambda x, y: x + y, lambda x, y: torch.cat([x, y], 1)[:, :x.shape[1]], lambda x, y: torch.where(x > y, x, y * 0.5), lambda x, y: torch.maximum(x, y)]


class Network(nn.Module):
    def __init__(self, seed):
        super().__init__()
        rng = random.Random(seed)
        torch.manual_seed(seed)
        self.layers, self.steps, channels = nn.ModuleList(), [], 4
        for _ in range(rng.randint(3, 9)):
            kind = rng.choice(["convolution", "convolution", "norm", "plain", "plain", "both"])
            if kind == "convolution":
                layer, channels = convolution(rng, channels)
            elif kind == "norm":
                layer = nn.BatchNorm2d(channels)
            if kind in ("convolution", "norm"):
                self.layers.append(layer)
                self.steps.append((kind, len(self.layers) - 1))
            else:
                self.steps.append((kind, rng.randrange(len(PLAIN if kind == "plain" else BOTH))))
        self.keeps = [rng.random() < 0.12 for _ in self.steps]
        self.channels_last = rng.random() < 0.25

    def forward(self, x):
        kept, before = [], [x]
        for (kind, number), keep in zip(self.steps, self.keeps):
            if kind in ("convolution", "norm"):
                x = self.layers[number](x)
            elif kind == "plain":
                x = PLAIN[number](x)
            else:
                like = [old for old in before if old.shape == x.shape]
                x = BOTH[number](x, like[0]) if like else x
            before.append(x)
            if keep:
                kept.append(x)
        return (x, *kept)


def image(size, network):
    made = torch.randn(size[0], 4, *size[1:], generator=torch.Generator().manual_seed(sum(size)))
    return made.to(memory_format=torch.channels_last) if network.channels_last else made


def run(function, x):
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(x.clone(memory_format=torch.preserve_format)), None
    except (RuntimeError, ValueError) as error:
        return None, error


def complaint(ours, eager, precise):
    for one, two, three in zip(ours, eager, precise):
        if one.shape != two.shape or one.dtype != two.dtype:
            return f"{one.shape} {one.dtype} against {two.shape} {two.dtype}"
        # An axis of size 1 anywhere in a layout leaves ATen several ways to lay out what comes of it.
        if 1 not in two.shape and one.numel() and one.stride() != two.stride():
            return f"strides {one.stride()} against {two.stride()} of {tuple(one.shape)}"
        allowed = 4 * (two - three).abs().max() + 4e-6 * three.abs().max() if two.numel() else 0
        if one.numel() and not bool((one - three).abs().max() <= allowed):
            return f"off by {(one - three).abs().max()}, eager by {(two - three).abs().max()}"
    shared = [[a.data_ptr() == b.data_ptr() for a in made for b in made] for made in (ours, eager)]
    return None if shared[0] == shared[1] or not all(x.numel() for x in eager) else "which results share memory"


def recordings():
    return core().stats().get("recordings", 0)


def failure(seed, mode="call"):
    network = Network(seed).eval()
    exact, made = copy.deepcopy(network).double(), escapement.jit(copy.deepcopy(network), mode=mode)
    seen = {}
    for size in SIZES + SIZES:
        x = image(size, network)
        before = recordings()
        (eager, refused), (ours, raised) = run(network, x), run(made, x)
        if (refused is None) != (raised is None):
            return f"{size}: {raised!r} against {refused!r}"
        if refused is not None:
            continue
        if found := complaint(ours, eager, run(exact, x.double())[0]):
            return f"{size}: {found}"
        if recordings() != before:   # a recording's results are eager's
            continue
        if size in seen and not all(map(torch.equal, ours, seen[size])):
            return f"{size}: other bits than before"
        seen[size] = ours
    return None


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("seed", range(60))
def test_a_random_network(seed, mode):
    assert failure(seed, mode) is None


if __name__ == "__main__":
    end, seed, bad = time.monotonic() + float(sys.argv[1]), int((sys.argv + ["1000"])[2]), 0
    while time.monotonic() < end:
        for mode in ("call", "replay"):
            try:
                found = failure(seed, mode)
            except Exception as error:   # noqa: BLE001  (whatever it is, it is a finding)
                found = repr(error)
            if found:
                bad += 1
                print(seed, mode, found, Network(seed).steps, flush=True)
        seed += 1
    print(f"up to {seed}: {bad}")
