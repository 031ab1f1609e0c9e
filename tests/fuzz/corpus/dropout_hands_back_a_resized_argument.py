"""form: ('tuple', ('Tensor',)) against Tensor (seed 98031652, call)"""

import torch.nn.functional as F

ARGUMENTS = {'c': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']
HOST = True


def program(c):
    v5 = c.resize_(0)
    v6 = F.dropout(c, 0.5, training=False)
    if c is v6: return c
    return (c, )
