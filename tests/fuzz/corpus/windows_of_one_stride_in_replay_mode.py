"""strides: result[0]: (2, 3) (3, 1) against (1, 2) (seed 90725227, replay)"""

from program import attempt

ARGUMENTS = {'a': 'bfloat16 [n, m] stepped zero', 'b': 'bool [n] contiguous grid', 'k': 'number', 'q': 'number'}
CALLS = [{'n': 8, 'm': 8, 'k': 1, 'q': 5, 'seed': 716, 'mode': 'no_grad'}, {'n': 4, 'm': 17, 'k': 2, 'q': 3, 'seed': 727, 'mode': 'no_grad'}]
WAYS = ['replay']
HOST = True


def program(a, b, k, q):
    v0 = attempt(lambda: b.unfold(-1, 3, 1), b)
    v1 = attempt(lambda: v0.expand(v0.shape) * 1, v0)
    a.t().add_(1)
    return (v1, v0, a, )
