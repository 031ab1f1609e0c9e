"""raises: IndexError: Dimension specified as 0 but tensor has no dimensions against nothing raised (call)"""

import torch

ARGUMENTS = {'b': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'grad'}, {'n': 0, 'seed': 0, 'mode': 'grad'}]
NEAR = ['v3']
WAYS = ['call']


def program(b):
    v0 = torch.argwhere(b)
    v1 = torch.nansum(b)
    return (v1, )
