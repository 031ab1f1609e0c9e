"""internal error: 1 (seed 7015133, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n] contiguous grid', 'b': 'complex64 [n] contiguous grid', 'c': '= a.flatten()[1:]'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v0', 'v2', 'v4']
WAYS = ['call']


def program(a, b, c):
    v0 = torch.linspace(0, 4, 5)
    v1 = torch.cat([c, c], out=b.new_empty(0))
    return (v0, )
