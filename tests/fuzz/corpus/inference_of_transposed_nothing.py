"""is_inference: result[0]: True against False (seed 40000027, call)"""

ARGUMENTS = {'b': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 2, 'm': 2, 'seed': 0, 'mode': 'inference'}, {'n': 0, 'm': 0, 'seed': 0, 'mode': 'inference'}]
WAYS = ['call']
HOST = True


def program(b):
    v0 = b.transpose(0, -1).reshape(-1)
    v1 = v0.shape[0] % 3
    v2 = v0.clamp_(v1, 4)
    return (v2, )
