"""a result cannot be looked at: RuntimeError: this tensor was never computed: the operators that it comes from failed (seed 121026570, call)"""

import torch
from program import attempt

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid', 'c': 'float32 [h, n, m] contiguous zero'}
CALLS = [{'n': 0, 'm': 0, 'h': 1, 'seed': 0, 'mode': 'no_grad'}, {'n': 1, 'm': 1, 'h': 0, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v1']
WAYS = ['call']
HOST = True


def program(a, c):
    v0 = a[None]
    v1 = torch.hypot(v0, a)
    v2 = attempt(lambda: v0.add_(c), c)
    return (v0, )
