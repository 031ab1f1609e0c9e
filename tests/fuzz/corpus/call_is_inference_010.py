"""is_inference: result[0]: False against True (seed 9003983, call)"""

ARGUMENTS = {'b': 'float32 [n, n] contiguous grid'}
CALLS = [{'n': 2, 'seed': 0, 'mode': 'inference'}, {'n': 3, 'seed': 0, 'mode': 'inference'}]
WAYS = ['call']


def program(b):
    v3 = b[..., ::2]
    v5 = v3.reshape(-1)
    return (v5, )
