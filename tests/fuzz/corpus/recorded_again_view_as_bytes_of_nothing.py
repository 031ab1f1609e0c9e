"""recorded again: 1 recordings, 2 when the same calls came again; [['a value that the program reads: expected u0 == 1 (strides read where a
size is 1 or 0, <program 6094f0c40654b0ee>:4 in program); u1 == 0 (strides read where a size is 1 or 0, <program 6094f0c40654b0ee>:4 in
program)']] (seed 50406243, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid', 'k': 'number'}
CALLS = [{'n': 1, 'm': 0, 'k': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a, k):
    v1 = a.permute(*range(a.dim() - 1, -1, -1))
    v4 = torch.fmod(v1, k)
    v6 = v1.view(torch.uint8)
    return (v1, )
