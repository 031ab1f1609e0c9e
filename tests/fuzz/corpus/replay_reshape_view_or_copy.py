"""is_inference: result[0]: False against True (seed 3005235, replay)"""

ARGUMENTS = {'a': 'float64 [] contiguous special', 'b': 'float64 [n, m] contiguous grid'}
CALLS = [{'n': 8, 'm': 1, 'seed': 929, 'mode': 'inference'}, {'n': 5, 'm': 5, 'seed': 62, 'mode': 'inference'}]
WAYS = ['replay']


def program(a, b):
    v5 = b.mT
    v6 = v5.reshape(-1)
    return (v6, v5, )
