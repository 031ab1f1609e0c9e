"""strides: result[0]: (2, 3, 1) (3, 1, 1) against (1, 2, 6) (seed 114035601, call)"""

import torch

ARGUMENTS = {'b': 'float32 [n, 3, m, h] transposed grid'}
CALLS = [{'n': 2, 'm': 1, 'h': 2, 'seed': 0, 'mode': 'no_grad'}, {'n': 2, 'm': 1, 'h': 1, 'seed': 77, 'mode': 'no_grad'}]
NEAR = ['v0', 'v1', 'v2', 'v3']
WAYS = ['call']


def program(b):
    v0 = torch.einsum("...s,...s->...", b, b)
    return (v0, )
