"""values: a torch.float32 (1,): 1 of 1 differ, first at (0,): 4.393527685633382e-34 against 1.6940658945086007e-19 (seed 9002786, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'no_grad'}, {'n': 1, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']
HOST = True


def program(a):
    v3 = a.view(torch.int16)
    v5 = v3.floor_divide_(2)
    if v3.sum() > 0: raise ValueError("asked for")
    return (v3, )
