"""raises: RuntimeError: Size does not match at dimension 0 expected index [2, 1] to be no larger than self [1, 0] apart from dimension 1
against NoneType: None (seed 50408332, call)"""

from program import attempt

ARGUMENTS = {'a': 'float32 [1, m] contiguous grid', 'b': 'int32 [n, 1] contiguous grid', 'c': 'float32 [n] contiguous grid', 'k': 'number'}
CALLS = [{'m': 0, 'n': 0, 'k': 0, 'seed': 0, 'mode': 'no_grad'}, {'m': 0, 'n': 2, 'k': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']
HOST = True


def program(a, b, c, k):
    v0 = a.mul_(k)
    v1 = attempt(lambda: a.gather(1, b), a)
    return (c, )
