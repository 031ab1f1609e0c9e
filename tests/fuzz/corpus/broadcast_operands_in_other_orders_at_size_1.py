"""strides: result[0]: (2, 1, 2) (2, 2, 1) against (1, 4, 2) (seed 104072130, call)"""

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid', 'b': 'float32 [h, n, m] transposed grid'}
CALLS = [{'n': 2, 'm': 2, 'h': 1, 'seed': 0, 'mode': 'grad'}, {'n': 1, 'm': 2, 'h': 2, 'seed': 0, 'mode': 'grad'}]
NEAR = ['v2']
WAYS = ['call']


def program(a, b):
    v0 = a / b
    return (v0, )
