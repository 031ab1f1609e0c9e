"""plain value: result[0][0]: 0 against 2 (seed 1001479, replay)"""

import torch

ARGUMENTS = {'a': 'float32 [n, m] transposed grid', 'd': '= a[None]'}
CALLS = [{'n': 2, 'm': 2, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v2', 'v3']
WAYS = ['replay']
HOST = True


def program(a, d):
    v2 = torch.addcdiv(a, a, d, value=0.5)
    v3 = v2.dim_order()
    return (v3, )
