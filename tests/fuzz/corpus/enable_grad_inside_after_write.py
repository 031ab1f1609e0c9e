"""raises: NeedsTape: the function switches gradients on against nothing raised (call)"""

import torch

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a):
    v1 = a.cumsum_(0)
    with torch.enable_grad(): v3 = a - 1
    return (v3, )
