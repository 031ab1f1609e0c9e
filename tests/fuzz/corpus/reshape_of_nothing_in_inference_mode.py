"""is_inference: result[1]: True against False (seed 9001064, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 0, 'm': 0, 'seed': 0, 'mode': 'inference'}, {'n': 2, 'm': 2, 'seed': 0, 'mode': 'inference'}]
NEAR = ['v1']
WAYS = ['call']


def program(a):
    v0 = a.transpose(0, -1).reshape(-1)
    v1 = torch.addcdiv(v0, v0, v0, value=0.5)
    return (v1, v0, )
