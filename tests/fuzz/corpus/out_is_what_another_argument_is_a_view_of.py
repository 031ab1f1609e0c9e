"""raises: RuntimeError: unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location.
Please clone() the tensor before performing the operation. against NoneType: None (seed 95035227, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid', 'b': '= a.t()'}
CALLS = [{'n': 1, 'm': 2, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a, b):
    v0 = b.swapdims(0, -1)
    v1 = b.mT
    v3 = torch.mul(v0, v1, out=a)
    return (v3, )
