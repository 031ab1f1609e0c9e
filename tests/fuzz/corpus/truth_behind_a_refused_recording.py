"""raises: RuntimeError: escapement: the program was run a second time, behind what it had done already, and did something else: it came to
aten::is_nonzero where it had come to a value that it reads; what a function does mus against NoneType: None (seed 154509060, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n] stepped grid', 'c': '= a.t()'}
CALLS = [{'n': 2, 'seed': 0, 'mode': 'no_grad'}, {'n': 1, 'seed': 140, 'mode': 'no_grad'}]
WAYS = ['call']
HOST = True


def program(a, c):
    v1 = torch.mul(a, c, out=c)
    v2 = torch.where(v1)
    v3 = bool((v2[0] > 0).any())
    return (c, )
