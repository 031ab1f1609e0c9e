"""raises: RuntimeError: Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal tensor
before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more det against NoneType: None (seed 54007864, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n] contiguous grid', 'b': 'float32 [n] contiguous grid'}
CALLS = [{'n': 1, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['b', 'v1', 'v3']
WAYS = ['call']
HOST = True


def program(a, b):
    for s in a: b.add_(s.sum())
    with torch.inference_mode(): v9 = a + 1
    v9.data.add_(1)
    return (a, )
