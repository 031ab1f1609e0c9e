"""values: result[0] torch.float32 (2, 1, 2): 2 of 4 differ, first at (0, 0, 1): -69.75 against 21.25 (seed 114002948, call)"""

import torch

ARGUMENTS = {'b': 'float32 [h, n, m] permuted grid', 'k': 'number'}
CALLS = [{'h': 2, 'n': 1, 'm': 2, 'k': 3, 'seed': 0, 'mode': 'inference'}, {'h': 2, 'n': 2, 'm': 2, 'k': 3, 'seed': 0, 'mode': 'inference'}]
WAYS = ['call']
HOST = True


def program(b, k):
    v0 = b.cumsum_(0)
    v1 = v0.topk(1).values
    v2 = torch.searchsorted(torch.tensor([0.0, 1.0, 2.0]), v0)
    v4 = torch.addcmul(v1, v1, v0, value=k)
    v6 = v4 + 1 if v4.stride(0) == 1 else v4 * 2
    return (v4, )
