"""raises: IndexError: index 0 is out of bounds for dimension 0 with size 0 against NoneType: None (seed 109000929, call)"""

import torch

ARGUMENTS = {'b': 'float32 [n, 3, m, h] channels_last grid'}
CALLS = [{'n': 0, 'm': 0, 'h': 0, 'seed': 0, 'mode': 'no_grad'}, {'n': 0, 'm': 0, 'h': 1, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['a', 'v2', 'v3', 'v4', 'v8', 'v9']
WAYS = ['call']
HOST = True


def program(b):
    b.data.add_(1)
    with torch.enable_grad(): v1 = b - 1
    v7 = torch.allclose(v1, v1)
    if v1.stride(-1) == 1: b[0] = 3
    return (v7, )
