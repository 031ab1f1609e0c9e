"""does not raise: nothing raised against RuntimeError: max_pool1d() Invalid computed output size: 0 (call)"""

import torch.nn.functional as F

ARGUMENTS = {'a': 'float32 [n, 2, m] contiguous grid', 'b': 'uint8 [n] stepped special'}
CALLS = [{'n': 11, 'm': 2, 'seed': 208, 'mode': 'no_grad'}, {'n': 4, 'm': 1, 'seed': 512, 'mode': 'no_grad'}]
NEAR = ['v2']
WAYS = ['call']


def program(a, b):
    v0 = F.max_pool1d(a, 2)
    return (b, )
