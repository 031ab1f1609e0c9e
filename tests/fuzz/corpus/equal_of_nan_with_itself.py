"""plain value: result[0]: True against False (seed 200199, call)"""

import torch

ARGUMENTS = {'a': 'int32 [n] contiguous grid'}
CALLS = [{'n': 1, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v2', 'v4']
WAYS = ['call']
HOST = True


def program(a):
    v1 = a / a
    v3 = torch.equal(v1, v1)
    return (v3, )
