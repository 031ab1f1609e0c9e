"""values: result[0] torch.float32 (1, 129): 8 of 129 differ, first at (0, 21): nan against 0.5 (seed 120014152, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 1, 'm': 129, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v3', 'v7']
WAYS = ['call']


def program(a):
    v3 = torch.logaddexp2(a, a)
    v7 = torch.addcdiv(v3, v3, v3, value=0.5)
    return (v7, )
