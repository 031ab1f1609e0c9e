"""strides: result[0]: (2, 3, 3) (9, 1, 3) against (9, 3, 1) (seed 114036881, call)"""

import torch
from program import attempt

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 0, 'm': 0, 'seed': 0, 'mode': 'grad'}, {'n': 3, 'm': 1, 'seed': 510, 'mode': 'grad'}]
NEAR = ['v2']
WAYS = ['call']
HOST = True


def program(a):
    v0 = a.broadcast_to((2, *a.shape))
    v1 = attempt(lambda: v0.amax(0), v0)
    v2 = torch.einsum("...ij,...kj->...ki", v0, v1)
    return (v2, )
