"""does not raise: NoneType: None against RuntimeError: unsupported operation: some elements of the input tensor and the written-to tensor
refer to a single memory location. Please clone() the tensor before performing the operation. (seed 100106755, call)"""

import torch

ARGUMENTS = {'b': 'float32 [n, 2, m] transposed grid'}
CALLS = [{'n': 2, 'm': 1, 'seed': 0, 'mode': 'grad'}, {'n': 1, 'm': 2, 'seed': 0, 'mode': 'grad'}]
WAYS = ['call']


def program(b):
    v1 = b.view_as(b)
    v2 = torch.mul(b, v1, out=v1)
    return (v2, )
