"""A question about a layout whose answer was pending until the end of the recording, behind an effect, was an exit that held nothing (call)."""

import torch
import torch.nn.functional as F

ARGUMENTS = {'a': 'float32 [n] contiguous grid', 'b': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 2, 'm': 2, 'seed': 0, 'mode': 'no_grad'}, {'n': 0, 'm': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']
HOST = True


def program(a, b):
    v0 = F.hardtanh(a, inplace=True)
    v4 = b.view(torch.int32)
    v5 = v4[:1] if v4.t().is_contiguous() else v4
    return (a, )
