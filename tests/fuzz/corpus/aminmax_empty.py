"""does not raise: nothing raised against RuntimeError: aminmax(): cannot compute aminmax over an empty dimension as the operation has no
identity. (call)"""

import torch

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 1, 'seed': 0, 'mode': 'no_grad'}, {'n': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a):
    v1 = torch.aminmax(a)
    return (a, )
