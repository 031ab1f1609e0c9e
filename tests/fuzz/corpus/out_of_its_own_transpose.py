"""internal error: 1 (seed 931011038, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n, 1] contiguous grid'}
CALLS = [{'n': 2, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a):
    v0 = a.T
    v1 = torch.neg(a, out=v0)
    return (v0, )
