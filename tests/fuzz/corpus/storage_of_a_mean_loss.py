"""plain value: result[0]: 4 against 8 (seed 114050844, call)"""

import torch.nn.functional as F

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'grad'}, {'n': 2, 'seed': 0, 'mode': 'grad'}]
NEAR = ['v0', 'v1']
WAYS = ['call']
HOST = True


def program(a):
    v0 = F.mse_loss(a, a)
    v1 = v0.untyped_storage().nbytes()
    return (v1, )
