"""raises: RuntimeError: ../src/torch/region/region.cpp:313: outcome == Program::Outcome::check_failed_clean: a check failed after an effect against
NoneType: None (seed 9002793, call)"""

import torch

ARGUMENTS = {'c': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 1, 'm': 0, 'seed': 0, 'mode': 'no_grad'}, {'n': 0, 'm': 0, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['c', 'v0', 'v4']
WAYS = ['call']


def program(c):
    v1 = c.floor_divide_(2)
    v4 = torch.cov(c)
    return (c, )
