"""values: result[0][1] torch.float32 (2,): 1 of 2 differ, first at (1,): -inf against nan (seed 203965, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n, m] contiguous special', 'c': '= a'}
CALLS = [{'n': 2, 'm': 2, 'seed': 525, 'mode': 'no_grad'}]
NEAR = ['v3', 'v3[0]', 'v3[1]', 'v4', 'v8']
WAYS = ['call']


def program(a, c):
    v3 = torch.var_mean(c, -2)
    return (v3, )
