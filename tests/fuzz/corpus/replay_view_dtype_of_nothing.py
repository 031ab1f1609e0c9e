"""raises: RuntimeError: self.stride(-1) must be 1 to view Long as Int (different element sizes), but got 0 against NoneType: None (seed
1000797, replay)"""

import torch

ARGUMENTS = {'a': 'int64 [n, m] contiguous grid', 'b': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'm': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['replay']


def program(a, b):
    v5 = a.swapdims(0, -1)
    v6 = b.squeeze_()
    v8 = v5.view(torch.int32)
    return (a, )
