"""is_inference: result[0]: True against False (seed 114066921, call)"""

import torch.nn.functional as F

ARGUMENTS = {'d': 'float32 [n] contiguous grid'}
CALLS = [{'n': 1, 'seed': 0, 'mode': 'inference'}, {'n': 0, 'seed': 0, 'mode': 'inference'}]
NEAR = ['v4']
WAYS = ['call']
HOST = True


def program(d):
    v5 = F.dropout(d, 0.5)
    v11 = bool((d > 0).any())
    return (v5, )
