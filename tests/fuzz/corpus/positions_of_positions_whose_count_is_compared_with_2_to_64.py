"""raises: TypeError: wrap_int(): incompatible function arguments. The following argument types are supported: against NoneType: None (seed
141000223, compile)"""

import torch

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 1, 'm': 3, 'seed': 5, 'mode': 'no_grad'}]
NEAR = ['v0']
WAYS = ['compile']


def program(a):
    v3 = torch.nonzero(a)
    v5 = torch.where(v3)
    return (v5, )
