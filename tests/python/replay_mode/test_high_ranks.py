"""Tensors of very many axes in replay mode: what a segment names of them has room, or the operator runs by itself."""

import torch

import escapement


def strided(rank):
    return torch.randn(2, *[1] * (rank - 2), 3).transpose(0, -1)


def test_lists_of_tensors_with_many_axes():
    ours = escapement.jit(lambda *tensors: torch.cat(tensors), mode="replay")
    for count in (3, 40, 55, 3, 55):
        tensors = [strided(63) for _ in range(count)]
        assert torch.equal(ours(*tensors), torch.cat(tensors))


def test_more_axes_than_a_form_holds():
    ours = escapement.jit(lambda x: x.view(-1) * 2 + x.sum(), mode="replay")
    for rank in (300, 255, 256, 300, 3):
        x = torch.randn([1] * (rank - 1) + [4])
        assert torch.allclose(ours(x), x.view(-1) * 2 + x.sum())
