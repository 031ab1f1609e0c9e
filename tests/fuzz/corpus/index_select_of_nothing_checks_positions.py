"""does not raise: NoneType: None against RuntimeError: INDICES element is out of DATA bounds, id=-1 axis_dim=1 (seed 60030775, call)"""

import torch

ARGUMENTS = {'a': 'int32 [n] contiguous grid', 'b': 'float32 [n] contiguous grid', 'd': 'float32 [h, n, m] contiguous grid'}
CALLS = [{'n': 0, 'm': 0, 'h': 1, 'seed': 0, 'mode': 'no_grad'}, {'n': 1, 'm': 0, 'h': 1, 'seed': 642, 'mode': 'no_grad'}]
NEAR = ['b', 'v2', 'v3', 'v4', 'v6', 'v7']
WAYS = ['call']


def program(a, b, d):
    v5 = torch.index_select(d, 0, a.flatten())
    return (b, )
