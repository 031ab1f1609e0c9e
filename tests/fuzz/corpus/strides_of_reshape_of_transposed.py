"""strides: result[0]: (2, 2) (2, 1) against (1, 2) (seed 30006237, call)"""

ARGUMENTS = {'a': 'float32 [n, 2, m] transposed grid'}
CALLS = [{'n': 2, 'm': 2, 'seed': 0, 'mode': 'no_grad'}, {'n': 2, 'm': 1, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v10']
WAYS = ['call']


def program(a):
    v2 = a <= 3
    v4 = v2.reshape(v2.shape[0], -1)
    return (v4, )
