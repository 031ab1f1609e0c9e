"""raises: RuntimeError: narrow(): length must be non-negative. against NoneType: None (seed 50400321, call)"""

import torch.nn.functional as F
from program import attempt

ARGUMENTS = {'b': 'float32 [n] contiguous grid', 'c': 'float32 [n] contiguous grid'}
CALLS = [{'n': 2, 'seed': 0, 'mode': 'grad'}, {'n': 0, 'seed': 0, 'mode': 'grad'}]
WAYS = ['call']
HOST = True


def program(b, c):
    v0 = c.eq_(c)
    v1 = attempt(lambda: F.pad(v0, (-2, 0)), b)
    return (v1, )
