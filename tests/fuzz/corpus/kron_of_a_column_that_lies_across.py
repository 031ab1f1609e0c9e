"""raises: RuntimeError: view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous
subspaces). Use .reshape(...) instead. against NoneType: None (seed 104050805, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n, m] transposed grid', 'k': 'number'}
CALLS = [{'n': 2, 'm': 2, 'k': 0, 'seed': 0, 'mode': 'grad'}, {'n': 2, 'm': 1, 'k': 0, 'seed': 0, 'mode': 'grad'}]
NEAR = ['v1', 'v2']
WAYS = ['call']


def program(a, k):
    v0 = a.clamp_(k, 4)
    v1 = a.abs().sqrt()
    v2 = torch.kron(v1, a)
    return (v2, )
