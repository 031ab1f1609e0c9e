"""Tensors of more dims than a 32-bit mask has bits: what a library's operator made is checked in each dim."""

import pytest
import torch

import escapement

LAST = [(3, 5), (1, 7), (5, 1), (0, 5), (3, 0), (2, 2), (13, 11)]


def program(x):
    y = x * 2
    return (torch.cumsum(y, -1) + 1, torch.flip(y, [-1]) * 3, torch.sort(y, -1)[0] + 1, torch.roll(y, 1, -1).transpose(0, -2) + 1, y.cumprod(0))


@pytest.mark.parametrize("way", ["call", "replay"])
@pytest.mark.parametrize("rank", [31, 32, 33, 48, 64])
def test_sizes_and_strides_are_eagers(rank, way):
    compiled = escapement.jit(program, mode=way)
    for sizes in LAST:
        for swapped in (False, True):
            x = torch.randn([2] + [1] * (rank - 3) + list(sizes))
            x = x.transpose(0, -1) if swapped else x
            expected = program(x)
            for _ in range(2):
                for ours, eagers in zip(compiled(x), expected, strict=True):
                    assert ours.stride() == eagers.stride()
                    torch.testing.assert_close(ours, eagers)
    if way == "call":
        info = compiled.info()
        assert info["recordings"] <= 2 and not info["eager"]
        assert sum(version["hits"] for version in info["regions"][0]["versions"]) >= 2 * 2 * len(LAST) - 2
