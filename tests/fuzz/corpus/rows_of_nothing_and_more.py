"""raises: RuntimeError: dimensionality of sizes (2) must match dimensionality of strides (1) against NoneType: None (seed 98065007, call)"""

ARGUMENTS = {'b': 'float32 [n, m] contiguous grid', 'c': 'float32 [n] contiguous grid'}
CALLS = [{'n': 1, 'm': 0, 'seed': 0, 'mode': 'inference'}, {'n': 2, 'm': 2, 'seed': 0, 'mode': 'inference'}]
NEAR = ['c', 'v0', 'v2', 'v3', 'v5', 'v7', 'v8', 'v9']
WAYS = ['call', 'replay']
HOST = True


def program(b, c):
    v0 = c.copy_(c)
    v1 = b.unfold(0, 1, 1) * 2
    v2 = [float(s.sum()) for s in v1]
    return (c, )
