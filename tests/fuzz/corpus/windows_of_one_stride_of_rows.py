"""strides: result[0]: (2, 2, 3) (6, 3, 1) against (6, 1, 2) (seed 90734126, replay)"""

from program import attempt

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 2, 'm': 33, 'seed': 0, 'mode': 'no_grad'}, {'n': 2, 'm': 8, 'seed': 973, 'mode': 'grad'}]
NEAR = ['v4']
WAYS = ['replay']
HOST = True


def program(a):
    v0 = a[..., ::2]
    v3 = attempt(lambda: v0.unfold(-1, 3, 1), v0)
    v4 = v3.sigmoid()
    return (v4, )
