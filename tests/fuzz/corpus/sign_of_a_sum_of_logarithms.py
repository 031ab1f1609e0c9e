"""values: result[0] torch.float32 (2, 5): 2 of 10 differ, first at (0, 3): 0.0 against -1.0 (seed 114033641, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n, m] expanded grid'}
CALLS = [{'n': 2, 'm': 5, 'seed': 506, 'mode': 'no_grad'}]
NEAR = ['v0', 'v1', 'v2']
WAYS = ['call']


def program(a):
    v0 = torch.logaddexp2(a, a)
    v2 = torch.sgn(v0)
    return (v2, )
