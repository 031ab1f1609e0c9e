"""internal error: 1 (seed 3000495, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n, m] expanded grid'}
CALLS = [{'n': 3, 'm': 2, 'seed': 239, 'mode': 'no_grad'}]
WAYS = ['call']
HOST = True


def program(a):
    v4 = a.unfold(0, 1, 1) * 2
    v5 = a.t() if a.max() > 2 else a.clone()
    v6 = torch.neg(v4, out=v5)
    return (a, )
