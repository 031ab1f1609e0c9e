"""strides: result[0]: (2, 2) (2, 1) against (1, 1) (call)"""

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 2, 'seed': 0, 'mode': 'no_grad'}, {'n': 3, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a):
    v2 = a > 7
    v3 = v2.unfold(0, 2, 1)
    return (v3, )
