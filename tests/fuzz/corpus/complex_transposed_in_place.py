"""raises: RuntimeError: op.is_output INTERNAL ASSERT FAILED at '/__w/pytorch/pytorch/aten/src/ATen/TensorIterator.cpp':367, please report a
bug to PyTorch. Found type undefined input tensor! against NoneType: None (seed 200123, call)"""

import torch

ARGUMENTS = {'a': 'float32 [] contiguous zero', 'b': 'bfloat16 [n] contiguous grid', 'k': 'number'}
CALLS = [{'n': 7, 'k': 1, 'seed': 926, 'mode': 'no_grad'}, {'n': 7, 'k': -1, 'seed': 974, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a, b, k):
    v2 = torch.complex(a, a)
    v4 = v2.transpose_(0, -1)
    v5 = v2 != v4
    return (b, a, )
