"""is_inference: result[0]: False against True (call)"""

import torch

ARGUMENTS = {'a': 'float32 [n] contiguous grid', 'b': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'grad'}, {'n': 2, 'seed': 0, 'mode': 'grad'}, {'n': 3, 'seed': 1, 'mode': 'grad'}]
NEAR = []
WAYS = ['call', 'replay']
HOST = True


def program(a, b):
    v0 = b.relu_()
    with torch.inference_mode():
        v1 = a + 1
    v2 = v1.t() if v1.nonzero().shape[0] > 1 else v1.clone()
    return (v2, v0)
