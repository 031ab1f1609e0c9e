"""sharing: ('result[0]', 'b'): -4 against -8 (seed 3000957, replay)"""

import torch

ARGUMENTS = {'b': 'float32 [n] stepped grid'}
CALLS = [{'n': 1, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['replay']


def program(b):
    v0 = b[1:]
    v4 = torch.sum(v0, 0, out=v0)
    return (v4, )
