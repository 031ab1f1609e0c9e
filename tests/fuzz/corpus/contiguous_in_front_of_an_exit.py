"""raises: RuntimeError: escapement: the program was run a second time, behind what it had done already, and did something else: it came to
aten::contiguous where it had come to aten::select; what a function does must follow  against NoneType: None (seed 104073160, call)"""

import torch

ARGUMENTS = {'b': 'float32 [n, m] transposed grid'}
CALLS = [{'n': 2, 'm': 2, 'seed': 0, 'mode': 'no_grad'}, {'n': 0, 'm': 1, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']
HOST = True


def program(b):
    v0 = torch.swapaxes(b, 0, -1).contiguous()
    b[..., 0] += 1
    v6 = int(v0.numel() + v0.count_nonzero())
    return (v6, )
