"""raises: RuntimeError: The size of tensor a (0) must match the size of tensor b (2) at non-singleton dimension 1 against nothing raised
(call)"""

import torch

ARGUMENTS = {'b': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 0, 'm': 2, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v0', 'v1', 'v3', 'v5']
WAYS = ['call']


def program(b):
    v0 = torch.cov(b)
    v5 = torch.neg(v0, out=b)
    return (b, )
