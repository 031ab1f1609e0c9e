"""strides: result[0]: (2, 2, 1) (1, 2, 4) against (2, 1, 1) (seed 91152323, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n, m] transposed grid'}
CALLS = [{'n': 2, 'm': 2, 'seed': 0, 'mode': 'no_grad'}, {'n': 2, 'm': 1, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a):
    v1 = a.unsqueeze(-2).expand_as(torch.stack([a, a], -2))
    v2 = torch.logical_and(v1, v1)
    return (v2, )
