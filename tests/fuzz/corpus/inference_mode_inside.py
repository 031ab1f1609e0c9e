"""is_inference: result[0]: False against True (call)"""

import torch

ARGUMENTS = {'b': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'grad'}, {'n': 0, 'seed': 0, 'mode': 'grad'}]
WAYS = ['call']


def program(b):
    with torch.inference_mode(): v2 = b + 1
    return (v2, )
