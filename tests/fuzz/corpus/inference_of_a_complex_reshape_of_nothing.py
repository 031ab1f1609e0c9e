"""is_inference: result[0]: True against False (seed 90731288, replay)"""

ARGUMENTS = {'b': 'complex64 [n, m] contiguous grid'}
CALLS = [{'n': 2, 'm': 2, 'seed': 0, 'mode': 'inference'}, {'n': 0, 'm': 0, 'seed': 0, 'mode': 'inference'}]
WAYS = ['replay']


def program(b):
    v0 = b.t()
    v1 = v0.flatten()
    return (v1, )
