"""plain value: result[0]: True against False (seed 165608915, call)"""

import torch

ARGUMENTS = {'b': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 1, 'm': 0, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v0', 'v1', 'v2']
WAYS = ['call']
HOST = True


def program(b):
    v0 = torch.hann_window(b.shape[-2] + 1)
    v1 = v0._is_view()
    return (v1, )
