"""strides: result[0]: (1, 2, 3) (6, 3, 1) against (1, 1, 2)"""

import torch

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 8, 'seed': 0, 'mode': 'no_grad'}, {'n': 4, 'seed': 0, 'mode': 'no_grad'}, {'n': 3, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v1']
WAYS = ['call']


def program(a):
    v0 = a.unfold(0, 3, 1).unsqueeze(1).expand(-1, 2, -1)
    v1 = v0.abs()
    return (v1, )
