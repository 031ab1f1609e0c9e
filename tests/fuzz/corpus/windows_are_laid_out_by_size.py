"""strides: result[0]: (1, 2, 3) (6, 3, 1) against (6, 1, 2) (seed 62014409, call)"""

from program import attempt

ARGUMENTS = {'d': 'int32 [n, m] contiguous grid'}
CALLS = [{'m': 5, 'n': 1, 'seed': 0, 'mode': 'no_grad'}, {'m': 4, 'n': 1, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['c', 'v1', 'v2', 'v3']
WAYS = ['call']
HOST = True


def program(d):
    v0 = attempt(lambda: d.unfold(-1, 3, 1), d)
    v1 = v0.sigmoid()
    return (v1, )
