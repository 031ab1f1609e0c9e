"""raises: UserError: the assumption u0 == -9223372036854775808 cannot be represented against NoneType: None (call)"""

import torch

ARGUMENTS = {'a': 'float32 [n] contiguous grid', 'b': '= a[None]', 'k': 'number'}
CALLS = [{'n': 1, 'seed': 0, 'k': 0, 'mode': 'no_grad'}, {'n': 3, 'seed': 1, 'k': 2, 'mode': 'no_grad'}]
NEAR = []
WAYS = ['call', 'replay']
HOST = True


def program(a, b, k):
    v0 = a.div(k)
    torch.relu_(b)
    v3 = v0.to(torch.int64)
    return (float(v3.max()), )
