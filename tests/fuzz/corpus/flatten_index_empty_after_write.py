"""raises: IndexError: index 0 is out of bounds for dimension 0 with size s0*s1 against nothing raised (call)"""

import torch.nn.functional as F

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid', 'b': '= a'}
CALLS = [{'n': 0, 'm': 0, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v1', 'v11', 'v4', 'v5', 'v5[0]', 'v5[1]', 'v9']
WAYS = ['call']
HOST = True


def program(a, b):
    v1 = F.relu(b, inplace=True)
    v8 = b.sum() if b.t().is_contiguous() else b.flatten()[0]
    return (v1, )
