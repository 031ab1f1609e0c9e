"""does not raise: nothing raised against RuntimeError: linalg.vector_norm cannot compute the inf norm on an empty tensor because the operation
does not have an identity (call)"""

import torch

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 1, 'seed': 0, 'mode': 'no_grad'}, {'n': 0, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v0', 'v1']
WAYS = ['call']


def program(a):
    v0 = torch.linalg.vector_norm(a, float("inf"))
    return (a, )
