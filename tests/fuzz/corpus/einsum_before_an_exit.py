"""raises: RuntimeError: escapement: the program was run a second time, behind what it had done already, and did something else: it came to
aten::mul where it had come to aten::permute; what a function does must follow from i against NoneType: None (seed 114007031, call)"""

import torch

ARGUMENTS = {'a': 'float32 [4, 4] contiguous grid', 'b': 'float32 [h, n, m] offset normal', 'k': 'number', 'q': 'number'}
CALLS = [{'h': 3, 'n': 4, 'm': 1, 'k': -1, 'q': -2.0, 'seed': 705, 'mode': 'grad'},
 {'h': 2, 'n': 3, 'm': 3, 'k': -1, 'q': -2.0, 'seed': 705, 'mode': 'grad'},
 {'h': 2, 'n': 1, 'm': 3, 'k': -1, 'q': -2.0, 'seed': 705, 'mode': 'grad'},
 {'h': 0, 'n': 4, 'm': 1, 'k': -1, 'q': -2.0, 'seed': 705, 'mode': 'grad'},
 {'h': 0, 'n': 0, 'm': 1, 'k': -1, 'q': -2.0, 'seed': 705, 'mode': 'grad'},
 {'h': 4, 'n': 2, 'm': 0, 'k': -1, 'q': -2.0, 'seed': 705, 'mode': 'grad'},
 {'h': 3, 'n': 1, 'm': 3, 'k': -1, 'q': -2.0, 'seed': 705, 'mode': 'grad'},
 {'h': 4, 'n': 3, 'm': 4, 'k': -1, 'q': -2.0, 'seed': 705, 'mode': 'grad'},
 {'h': 1, 'n': 1, 'm': 0, 'k': -1, 'q': -2.0, 'seed': 705, 'mode': 'grad'},
 {'h': 2, 'n': 3, 'm': 1, 'k': -1, 'q': -2.0, 'seed': 705, 'mode': 'grad'},
 {'h': 4, 'n': 2, 'm': 1, 'k': -1, 'q': -2.0, 'seed': 705, 'mode': 'grad'},
 {'h': 2, 'n': 1, 'm': 4, 'k': -1, 'q': -2.0, 'seed': 705, 'mode': 'grad'},
 {'h': 0, 'n': 3, 'm': 0, 'k': -1, 'q': -2.0, 'seed': 705, 'mode': 'grad'}]
NEAR = ['v10', 'v2', 'v4', 'v6', 'v7', 'v8']
WAYS = ['call']
HOST = True


def program(a, b, k, q):
    v0 = b * b
    v1 = v0.round_()
    v2 = torch.einsum("...ij,...kj->...ki", b, b)
    v3 = torch.square(b)
    v4 = v1.prod()
    v5 = v1.is_inference()
    v6 = v0.sum().item()
    v7 = v4.mean(0)
    v8 = v7.sum(0)
    v9 = int(v3.numel() + v3.count_nonzero())
    return (v2, v5, )
