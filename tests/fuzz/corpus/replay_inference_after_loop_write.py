"""crash: RuntimeError: Inference tensors do not track version counter. (replay)"""

ARGUMENTS = {'b': 'float32 [n, m] contiguous grid', 'c': 'float32 [n] contiguous grid'}
CALLS = [{'n': 2, 'm': 0, 'seed': 0, 'mode': 'inference'}, {'n': 3, 'm': 3, 'seed': 440, 'mode': 'inference'}]
NEAR = ['v0', 'v1']
WAYS = ['replay']
HOST = True


def program(b, c):
    for s in b: c.add_(s.sum())
    v3 = c.chunk(2, 0)
    return (v3, )
