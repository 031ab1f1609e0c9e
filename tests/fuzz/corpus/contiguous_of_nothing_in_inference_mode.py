"""is_inference: result[0]: True against False (seed 3000423, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n, m, 3] stepped grid', 'b': 'bfloat16 [n, 2, m] contiguous grid', 'c': 'float32 [n, 1] contiguous grid'}
CALLS = [{'n': 3, 'm': 0, 'seed': 968, 'mode': 'inference'}, {'n': 1, 'm': 1, 'seed': 844, 'mode': 'inference'}]
NEAR = ['v2']
WAYS = ['call']


def program(a, b, c):
    v1 = torch.swapaxes(a, 0, -1).contiguous()
    return (v1, )
