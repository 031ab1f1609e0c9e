"""shape: result[0]: torch.Size([0]) against torch.Size([2, 2]) (seed 120019686, call)"""

import torch
from program import attempt

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'grad'}, {'n': 2, 'seed': 0, 'mode': 'grad'}]
WAYS = ['call']
HOST = True


def program(a):
    v0 = a.broadcast_to((2, *a.shape))
    v3 = torch.sum(a, 0, dtype=torch.float64)
    v7 = attempt(lambda: v0.copy_(v3), a)
    return (v0, )
