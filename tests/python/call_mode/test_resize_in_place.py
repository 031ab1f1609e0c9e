"""`resize_` to the sizes that a tensor has, as observers and buffers do it, is recorded; to others it is not."""
import pytest
import torch

import escapement


def observer(x, kept):
    least = x.amin(0)
    kept.resize_(least.shape)
    kept.copy_(torch.minimum(kept, least))
    return x + 1


def own(x, kept):
    y = torch.empty(x.shape)
    y.resize_(x.shape[0], x.shape[1])
    y.copy_(x)
    return y * 2


def argument(x, kept):
    return kept.resize_(kept.shape[0]) + x


def other_rank(x, kept):
    y = x * 2
    return y.resize_(x.numel()) + 1


PROGRAMS = [observer, own, argument, other_rank]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@torch.no_grad()
def test_as_eager(program):
    jitted = escapement.jit(program)
    for rows, columns in ((2, 3), (4, 3), (1, 3), (5, 4), (3, 1), (0, 2) if program is not observer else (2, 2)):
        x, ours, eagers = torch.randn(rows, columns), torch.zeros(columns), torch.zeros(columns)
        assert torch.equal(jitted(x, ours), program(x.clone(), eagers)) and torch.equal(ours, eagers)
    if program is not other_rank:
        assert jitted.info()["recordings"] == 1 and not jitted.info()["eager"], jitted.info()
        assert not any(region["fallbacks"] for region in jitted.info()["regions"])


@torch.no_grad()
def test_sizes_that_differ_later():
    jitted = escapement.jit(observer)
    jitted(torch.randn(2, 3), torch.zeros(3))
    for had in (2, 5, 0):
        x, ours, eagers = torch.randn(4, 3), torch.zeros(had), torch.zeros(had)
        jitted(x, ours)
        eagers.resize_(3)
        assert ours.shape == eagers.shape == (3,)
    assert torch.equal(jitted(x, torch.zeros(3)), x + 1)


@pytest.mark.parametrize("name", ["PerChannelMinMaxObserver", "MinMaxObserver", "MovingAverageMinMaxObserver"])
@torch.no_grad()
def test_observers(name):
    ours, eagers = (getattr(torch.ao.quantization, name)() for _ in range(2))
    jitted = escapement.jit(ours)
    for rows in (3, 5, 3, 4):
        x = torch.randn(3, rows)
        assert torch.equal(jitted(x), eagers(x))
        for mine, wanted in zip(ours.buffers(), eagers.buffers()):
            torch.testing.assert_close(mine, wanted)
