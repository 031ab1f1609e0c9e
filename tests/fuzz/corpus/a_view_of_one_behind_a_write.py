"""The stride of an axis of one element was what the recording claimed: `view(dtype)` refused it behind a write."""

import torch

ARGUMENTS = {'a': 'int64 [n, m] contiguous grid', 'b': '= a.t()'}
CALLS = [{'n': 5, 'm': 1, 'seed': 0, 'mode': 'no_grad'}]
NEAR = []
WAYS = ['call']
HOST = True


def program(a, b):
    if b.numel() > 4: b.add_(1)
    v4 = b.permute(*range(b.dim() - 1, -1, -1))
    v6 = v4.view(torch.int32)
    return (v4, )
