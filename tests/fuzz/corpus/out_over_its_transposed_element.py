"""raises: RuntimeError: unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location.
Please clone() the tensor before performing the operation. against NoneType: None (seed 931000327, call)"""

import torch

ARGUMENTS = {'b': 'float32 [1, m] stepped grid'}
CALLS = [{'m': 1, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(b):
    v0 = b.transpose(-2, -1)
    v1 = torch.neg(v0, out=b)
    return (v1, )
