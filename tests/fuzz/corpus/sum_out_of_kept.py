"""values: result[0] torch.float32 (): 1 of 1 differ, first at (): 11.5 against 0.0 (call)"""

import torch

ARGUMENTS = {'a': 'float32 [n] contiguous grid', 'b': '= a.view(-1)'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'no_grad'}, {'n': 1, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a, b):
    v0 = b + 7
    v1 = torch.sum(v0, 0, out=v0)
    return (v0, )
