"""raises: ZeroDivisionError: float division by zero against NoneType: None (seed 917000105, train)"""

import torch

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 2, 'm': 2, 'seed': 640, 'mode': 'grad'}, {'n': 1, 'm': 5, 'seed': 724, 'mode': 'grad'}]
NEAR = ['gradients', 'v0', 'v1', 'v1[0]', 'v1[1]', 'v2']
WAYS = ['train']


def program(a):
    v1 = torch.var_mean(a, -2)
    return (v1, )
