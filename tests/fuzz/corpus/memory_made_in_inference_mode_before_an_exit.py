"""On the way to an exit, what was made in inference mode was not, and `.data` of it came by way of an operator."""

import torch

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 1, 'seed': 0, 'mode': 'no_grad'}, {'n': 2, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v10', 'v11']
WAYS = ['call']
HOST = True


def program(a):
    a[1:] = 0.5
    with torch.inference_mode(): v2 = a + 1
    v2.data.add_(1)
    v7 = len(v2.nonzero())
    return (a, )
