"""crash: Assertion '__n < this->size()' failed. (seed 64003313, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 2, 'm': 2, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a):
    v1 = a[..., 0]
    v2 = torch.mul(a, a, out=v1)
    return (a, )
