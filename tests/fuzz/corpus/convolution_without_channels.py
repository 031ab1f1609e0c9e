"""raises: RuntimeError: ../src/torch/region/region.cpp:319: outcome == Program::Outcome::check_failed_clean: a check failed after an effect against
NoneType: None (seed 61004836, call)"""

import torch.nn.functional as F

ARGUMENTS = {'a': 'float32 [n, m, 3] contiguous grid'}
CALLS = [{'n': 1, 'm': 1, 'seed': 0, 'mode': 'grad'}, {'n': 1, 'm': 0, 'seed': 0, 'mode': 'grad'}]
NEAR = ['v2']
WAYS = ['call']


def program(a):
    v0 = a.cumsum_(0)
    v2 = F.conv1d(a, v0)
    return (v0, )
