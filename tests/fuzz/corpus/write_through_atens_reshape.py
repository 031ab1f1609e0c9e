"""reshape was left to ATen, a view at one call and a copy at another, and what it was of was then written (call)."""

import torch

ARGUMENTS = {'a': 'float32 [n] contiguous grid', 'b': 'float32 [n, m] contiguous grid', 'c': 'bool [n, m] contiguous grid'}
CALLS = [{'m': 1, 'n': 1, 'seed': 0, 'mode': 'no_grad'}, {'m': 1, 'n': 2, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']
HOST = True


def program(a, b, c):
    v0 = torch.where(c, a, a)
    v2 = v0.transpose(0, -1).reshape(-1)
    if b.dim() == 2: v0.add_(1)
    return (v2, )
