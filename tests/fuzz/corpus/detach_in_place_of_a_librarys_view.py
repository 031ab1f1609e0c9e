"""does not raise: NoneType: None against RuntimeError: Can't detach views in-place. Use detach() instead. If you are using
DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and henc (seed
100056005, call)"""

import torch

ARGUMENTS = {'b': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 0, 'm': 0, 'seed': 0, 'mode': 'no_grad'}, {'n': 129, 'm': 1, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v0', 'v1', 'v2', 'v3']
WAYS = ['call']


def program(b):
    v0 = torch.cdist(b, b)
    v3 = v0.detach_()
    return (b, )
