"""values: ATen takes pow() itself for a root of float16: of -inf it is inf, of -0 it is 0 (with a number that varies, too)"""

ARGUMENTS = {'a': 'float16 [n, m] contiguous special', 'q': 'number'}
CALLS = [{'n': 3, 'm': 4, 'q': 0.5, 'seed': 218, 'mode': 'no_grad'}, {'n': 5, 'm': 33, 'q': -0.5, 'seed': 3, 'mode': 'no_grad'}, {'n': 5, 'm': 33, 'q': 0.5, 'seed': 4, 'mode': 'no_grad'}]
NEAR = ['v0', 'v1', 'v2']
WAYS = ['call', 'replay']


def program(a, q):
    v0 = a ** 0.5
    v1 = a ** -0.5
    v2 = a ** q
    return (v0, v1, v2, )
