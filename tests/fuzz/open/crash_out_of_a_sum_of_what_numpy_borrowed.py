"""crash: SIGSEGV Fatal Python error: Segmentation fault (seed 98042017, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['a', 'v0', 'v1', 'v5']
WAYS = ['call']
HOST = True


def program(a):
    v0 = a.numpy().sum().item()
    v5 = torch.sum(a, 0, out=a)
    return (v0, )
