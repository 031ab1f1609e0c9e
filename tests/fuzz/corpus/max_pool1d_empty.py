"""does not raise: nothing raised against RuntimeError: max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for
input, but got:[0, 0] (call)"""

import torch.nn.functional as F

ARGUMENTS = {'b': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 1, 'm': 2, 'seed': 0, 'mode': 'grad'}, {'n': 0, 'm': 0, 'seed': 0, 'mode': 'grad'}]
WAYS = ['call']


def program(b):
    v0 = F.max_pool1d(b, 2)
    return (b, )
