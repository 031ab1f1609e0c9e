"""strides: result[0]: (2,) (1,) against (2,) (seed 99479, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 1, 'seed': 0, 'mode': 'no_grad'}, {'n': 3, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v3', 'v4', 'v5']
WAYS = ['call']


def program(a):
    v2 = a[::2]
    v3 = torch.linalg.norm(a, dim=-1)
    v4 = torch.select_scatter(v2, v3, 0, 0)
    return (v4, )
