"""does not raise: ATen compares the strides of axes of size 1, too (seed 50000860, call)"""

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'no_grad'}, {'n': 1, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a):
    a[::2] = a
    return (a, )
