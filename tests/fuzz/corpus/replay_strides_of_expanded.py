"""strides: result[0]: (1, 2, 2) (1, 1, 2) against (4, 2, 1) (replay)"""

ARGUMENTS = {'c': 'float32 [n, m] expanded grid'}
CALLS = [{'m': 1, 'n': 2, 'seed': 0, 'mode': 'no_grad'}, {'m': 2, 'n': 2, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v0', 'v2', 'v4', 'v5', 'v7']
WAYS = ['replay']


def program(c):
    v0 = c.unsqueeze_(0)
    v6 = c.clamp(min=2.0)
    return (v6, )
