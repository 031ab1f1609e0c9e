"""raises: RuntimeError: gather: index out of bounds against NoneType: None (seed 50406714, call)"""

import torch
from program import attempt

ARGUMENTS = {'b': 'float32 [4, 4] contiguous grid', 'c': 'int64 [1, m] contiguous grid'}
CALLS = [{'m': 0, 'seed': 0, 'mode': 'grad'}, {'m': 1, 'seed': 0, 'mode': 'grad'}]
NEAR = ['b', 'v1', 'v2']
WAYS = ['call']
HOST = True


def program(b, c):
    v0 = torch.empty_like(b).normal_()
    v4 = attempt(lambda: v0.gather(-1, c), v0)
    return (c, )
