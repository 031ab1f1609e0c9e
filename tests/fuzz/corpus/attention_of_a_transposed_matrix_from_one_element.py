"""strides: result[0]: (2, 2) (1, 2) against (2, 1) (seed 98010278, call)"""

import torch.nn.functional as F

ARGUMENTS = {'c': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 1, 'm': 1, 'seed': 0, 'mode': 'grad'}, {'n': 2, 'm': 2, 'seed': 0, 'mode': 'grad'}]
NEAR = ['v2']
WAYS = ['call']


def program(c):
    v0 = c.t()
    v2 = F.scaled_dot_product_attention(v0, v0, v0)
    return (v2, )
