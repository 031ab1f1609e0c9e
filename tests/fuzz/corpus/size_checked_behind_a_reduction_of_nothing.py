"""crash: SIGSEGV Fatal Python error: Segmentation fault (seed 65020937, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 1, 'seed': 0, 'mode': 'inference'}, {'n': 0, 'seed': 0, 'mode': 'inference'}]
NEAR = ['v0', 'v1', 'v3', 'v4', 'v5', 'v7', 'v8']
WAYS = ['call']
HOST = True


def program(a):
    v0 = a.clamp(max=100)
    v6 = torch.unique_consecutive(v0)
    v9 = torch.equal(v6, v0)
    v10 = v6.shape[0] in (1, 2)
    return (v10, )
