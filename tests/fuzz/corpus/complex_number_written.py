"""internal error: 1 (seed 200099, call)"""

ARGUMENTS = {'b': 'complex64 [n] contiguous grid', 'd': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 767, 'mode': 'no_grad'}]
WAYS = ['call']


def program(b, d):
    b[1:] = 100
    return (d, )
