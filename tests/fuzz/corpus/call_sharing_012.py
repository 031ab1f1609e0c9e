"""sharing: ('result[0]', 'result[1][0]'): None against the same (seed 9004883, call)"""

import torch.nn.functional as F

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 2, 'm': 1, 'seed': 0, 'mode': 'no_grad'}, {'n': 2, 'm': 0, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['a', 'v0', 'v1', 'v2', 'v2[0]', 'v2[1]', 'v4', 'v5']
WAYS = ['call']


def program(a):
    v2 = a.chunk(2)
    v4 = F.dropout(v2[0], 0.5)
    return (v4, v2, )
