"""does not raise: NoneType: None against RuntimeError: max(): Expected reduction dim to be specified for input.numel() == 0. Specify the
reduction dim with the 'dim' argument. (seed 80000078, train)"""

from program import attempt

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'grad'}]
NEAR = ['gradients']
WAYS = ['train']
HOST = True


def program(a):
    v1 = a.max()
    v4 = attempt(lambda: v1 * v1.item(), v1)
    return (a, )
