"""internal error: 1 (seed 95048825, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n, n] contiguous grid', 'c': '= a.view(-1)'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a, c):
    v0 = c.split(2)
    v1 = v0[0].view(torch.int16)
    a[None] += 1
    return (v0, )
