"""raises: RuntimeError: this tensor was never computed: the operators that it comes from failed against NoneType: None (seed 99001074, replay)"""

import torch
from program import attempt

ARGUMENTS = {'a': 'float32 [n, m, 3] contiguous grid', 'b': 'float32 [1, m] contiguous grid'}
CALLS = [{'n': 0, 'm': 3, 'seed': 0, 'mode': 'no_grad'}, {'n': 1, 'm': 2, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['b', 'v1', 'v3', 'v5']
WAYS = ['replay']
HOST = True


def program(a, b):
    v0 = torch.complex(b, b)
    v2 = a.to(torch.int8)
    v6 = attempt(lambda: a.copy_(v0), v0)
    v7 = v2.to(torch.uint8)
    return (b, )
