"""internal error: 1 (seed 60040864, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n] contiguous grid', 'd': 'complex64 [] contiguous grid'}
CALLS = [{'n': 1, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v1', 'v3', 'v4']
WAYS = ['call']


def program(a, d):
    v1 = torch.atleast_3d(a)
    v1[:, 0] = d
    return (v1, )
