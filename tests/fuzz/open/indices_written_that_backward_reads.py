"""does not raise: NoneType: None against RuntimeError: one of the variables needed for gradient computation has been modified by an inplace
operation: [torch.LongTensor [5, 1]] is at version 5; expected version 0 instead. Hint: enable anomaly detection to (seed 140000325, train)"""

import torch
import torch.nn.functional as F

ARGUMENTS = {'a': 'float32 [n, m] contiguous positive', 'b': 'uint8 [n] offset normal'}
CALLS = [{'n': 5, 'm': 3, 'seed': 27, 'mode': 'grad'}, {'n': 3, 'm': 7, 'seed': 332, 'mode': 'grad'}, {'n': 5, 'm': 1, 'seed': 679, 'mode': 'grad'}]
NEAR = ['gradients']
WAYS = ['train']
HOST = True


def program(a, b):
    v0 = a.min(1, keepdim=True)
    for s in range(v0[1].shape[0]): v0[1][s] = s
    v2 = v0[1].topk(1, 1)
    v3 = F.dropout(v0[0], 0.5)
    with torch.autocast("cpu", torch.bfloat16): v4 = (v3 @ v3.mT) * 0
    return (v0[1], v0, )
