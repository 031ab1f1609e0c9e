"""plain value: result[0]: True against False (call)"""

import torch

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v7']
WAYS = ['call']
HOST = True


def program(a):
    v2 = a.sum()
    v3 = v2.is_contiguous(memory_format=torch.channels_last)
    return (v3, )
