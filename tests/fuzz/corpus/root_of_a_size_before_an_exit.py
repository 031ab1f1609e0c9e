"""raises: RuntimeError: escapement: the program was run a second time, behind what it had done already, and did something else: it came to
aten::mul where it had come to escapement::power; what a function does must follow fr against NoneType: None (seed 115004855, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid', 'b': '= a.detach()', 'c': 'float32 [n] contiguous grid'}
CALLS = [{'n': 1, 'm': 8, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['b', 'v3', 'v4', 'v7']
WAYS = ['call']
HOST = True


def program(a, b, c):
    v1 = c.numel() ** 0.5
    v4 = b * v1
    v6 = torch.rand_like(a)
    v7 = [float(s.sum()) for s in v6]
    return (b, )
