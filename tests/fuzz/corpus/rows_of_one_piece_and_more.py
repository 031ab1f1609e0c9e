"""crash: SIGABRT Fatal Python error: Aborted (seed 98058289, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 17, 'm': 1, 'seed': 0, 'mode': 'inference'}, {'n': 3, 'm': 1, 'seed': 0, 'mode': 'inference'}]
NEAR = ['a', 'v2', 'v3', 'v6']
WAYS = ['call', 'replay']
HOST = True


def program(a):
    v0 = a.add_(a)
    v4 = a.narrow(-1, 0, 1)
    with torch.no_grad(): v5 = v4 * 2
    v6 = [float(s.sum()) for s in v5]
    return (a, )
