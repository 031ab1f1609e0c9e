"""Tensors of up to 70 dims: what a library's operator made is checked in each of them, also where only the operator knows one."""

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
        expect_compiled(compiled, 2 * 2 * len(LAST))


OF_DATA = {
    "mask": lambda x, m: (x * 2)[..., m] + 1, "unique": lambda x, m: torch.unique(x * 2, dim=-1) + 1,
    "repeat": lambda x, m: torch.repeat_interleave(x * 2, m.long() * 2, dim=-1) + 1, "select": lambda x, m: (x * 2).index_select(-1, m.nonzero().flatten()) + 1,
}


@pytest.mark.parametrize("rank", [31, 33, 64])
@pytest.mark.parametrize("name", OF_DATA)
def test_the_last_size_is_of_data(name, rank):
    compiled = escapement.jit(OF_DATA[name])
    calls = 0
    for rows, columns in [(3, 5), (1, 7), (5, 1), (2, 2), (13, 11)]:
        for kept in range(3):
            x, mask = torch.randn([2] + [1] * (rank - 3) + [rows, columns]), torch.arange(columns) % 3 == kept
            ours, eagers = compiled(x, mask), OF_DATA[name](x, mask)
            calls += 1
            assert ours.stride() == eagers.stride() and torch.equal(ours, eagers)
    expect_compiled(compiled, calls)


def test_more_dims_than_an_iterator_of_torchs_has():
    def program(x):
        y = x * 2
        return torch.cumsum(y.flatten(), 0).view(x.shape) + 1, y.contiguous().sort(-1)[0]

    compiled = escapement.jit(program)
    sizes = [(3, 5), (1, 7), (5, 1), (2, 2), (13, 11)]
    for last in sizes:
        x = torch.randn([1] * 68 + list(last))
        for ours, eagers in zip(compiled(x), program(x), strict=True):
            assert ours.stride() == eagers.stride() and torch.equal(ours, eagers)
    expect_compiled(compiled, len(sizes))


def expect_compiled(compiled, calls):
    """By at most two recordings, which served all other calls. (So many axes have no kernels of ours: all that they run are library calls.)"""
    info = compiled.info()
    versions = info["regions"][0]["versions"]
    assert info["recordings"] <= 2 and not info["eager"] and not info["regions"][0]["fallbacks"]
    assert sum(version["hits"] for version in versions) >= calls - 2
