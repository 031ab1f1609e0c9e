"""crash: SIGSEGV Fatal Python error: Segmentation fault (call)"""

ARGUMENTS = {'b': 'float32 [n, m] contiguous grid', 'c': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'm': 1, 'seed': 0, 'mode': 'no_grad'}, {'n': 0, 'm': 1, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']
HOST = True


def program(b, c):
    v0 = c.any().item()
    v2 = b.median(-1)
    return (v2[0], )
