"""plain value: result[0]: True against False (seed 165800003, call)"""

import torch

ARGUMENTS = {'b': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['b', 'v2']
WAYS = ['call']
HOST = True


def program(b):
    v0 = torch.tensor(b.shape)
    v1 = v0._is_view()
    return (v1, )
