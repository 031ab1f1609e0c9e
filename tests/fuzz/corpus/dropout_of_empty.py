"""random state: the generator's state differs (call)"""

import torch.nn.functional as F

ARGUMENTS = {'a': 'float32 [m] contiguous grid', 'b': 'float32 [n, m] contiguous grid'}
CALLS = [{'m': 0, 'n': 0, 'seed': 46, 'mode': 'no_grad'}, {'m': 1, 'n': 4, 'seed': 261, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a, b):
    v0 = F.dropout(b, 0.5)
    return (a, )
