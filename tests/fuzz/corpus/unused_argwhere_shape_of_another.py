"""raises: IndexError: Dimension out of range (expected to be in range of [-1, 0], but got 1) against nothing raised (call)"""

import torch

ARGUMENTS = {'b': 'float32 [1, m] contiguous grid'}
CALLS = [{'m': 0, 'seed': 0, 'mode': 'no_grad'}, {'m': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(b):
    v1 = b.nonzero(as_tuple=True)
    v3 = v1[1].squeeze(0)
    v4 = torch.argwhere(b)
    v5 = v3.split(1, -1)
    return (v5, )
