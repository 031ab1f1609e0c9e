"""does not raise: NoneType: None against RuntimeError: self.stride(-1) must be 1 to view Double as Byte (different element sizes), but got 0
(seed 40005750, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 0, 'm': 1, 'seed': 0, 'mode': 'no_grad'}, {'n': 0, 'm': 0, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v0', 'v4', 'v5']
WAYS = ['call']


def program(a):
    v0 = a.double()
    v1 = v0.view(torch.uint8)
    return (a, )
