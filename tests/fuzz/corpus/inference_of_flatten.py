"""is_inference: result[0]: False against True (seed 20014738, call)"""

ARGUMENTS = {'a': 'float32 [n, m] stepped grid'}
CALLS = [{'n': 1, 'm': 3, 'seed': 0, 'mode': 'inference'}, {'n': 2, 'm': 3, 'seed': 0, 'mode': 'inference'}]
WAYS = ['call']
HOST = True


def program(a):
    v0 = a.mT
    v3 = v0.sum() if v0.shape[0] % 2 == 0 else v0.flatten()[0]
    return (v3, )
