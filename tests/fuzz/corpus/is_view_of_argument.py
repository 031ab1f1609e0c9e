"""values: result[0] torch.float32 (1,): 1 of 1 differ, first at (0,): 0.0 against 1.0 (seed 204480, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n] stepped grid'}
CALLS = [{'n': 1, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']
HOST = True


def program(a):
    v0 = a._is_view()
    v2 = torch.full_like(a, v0)
    return (v2, )
