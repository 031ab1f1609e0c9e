"""a result cannot be looked at: RuntimeError: this tensor was never computed: the operators that it comes from failed (seed 51001971, call)"""

import torch
from program import attempt

ARGUMENTS = {'a': 'float32 [n] contiguous grid', 'b': 'float32 [] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'no_grad'},
 {'n': 0, 'seed': 0, 'mode': 'no_grad'},
 {'n': 0, 'seed': 0, 'mode': 'no_grad'},
 {'n': 1, 'seed': 0, 'mode': 'no_grad'},
 {'n': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']
HOST = True


def program(a, b):
    v0 = b.view(-1)
    v1 = torch.isinf(a)
    v5 = attempt(lambda: v0.add_(v1), v1)
    return (v1, )
