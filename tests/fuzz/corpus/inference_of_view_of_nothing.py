"""is_inference: result[1]: True against False (seed 50407696, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v5', 'v6']
WAYS = ['call']


def program(a):
    v1 = a.view(a.dtype)
    with torch.inference_mode(): v7 = a + 1
    return (v7, v1, )
