"""raises: RuntimeError: escapement: the program was run a second time, behind what it had done already, and did something else: it came to
aten::view in another way; what a function does must follow from its arguments against NoneType: None (seed 104092504, call)"""

import torch

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 1, 'm': 2, 'seed': 0, 'mode': 'no_grad'}, {'n': 2, 'm': 2, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v10', 'v7']
WAYS = ['call']
HOST = True


def program(a):
    v0 = a.fill_(0)
    v1 = torch.cat([a, v0], out=a.new_empty(0))
    v2 = v1.view(torch.uint8)
    for s in range(v2.shape[0]): v1[s] = s
    return (v0, )
