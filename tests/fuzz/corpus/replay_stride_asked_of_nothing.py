"""shape: result[0]: torch.Size([1, 0]) against torch.Size([2, 0]) (seed 3002314, replay)"""

import torch

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid', 'k': 'number'}
CALLS = [{'n': 1, 'm': 0, 'k': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['replay']
HOST = True


def program(a, k):
    v0 = a[k:]
    v1 = a.tril_()
    v2 = torch.cat([v0, v0]) if v0.stride(0) == 1 else v0
    return (v2, )
