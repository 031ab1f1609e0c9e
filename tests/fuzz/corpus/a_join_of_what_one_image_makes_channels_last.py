"""strides: result[0]: (1, 6, 1, 2) (12, 2, 2, 1) against (12, 1, 12, 6) (seed 121043019, call)"""

import torch

ARGUMENTS = {'b': 'int8 [n, 3, m, h] transposed grid'}
CALLS = [{'n': 2, 'm': 1, 'h': 1, 'seed': 0, 'mode': 'no_grad'}, {'n': 1, 'm': 1, 'h': 2, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['c', 'v4', 'v5']
WAYS = ['call']


def program(b):
    v1 = torch.bitwise_right_shift(b, b)
    v7 = torch.column_stack([v1, v1])
    return (v7, )
