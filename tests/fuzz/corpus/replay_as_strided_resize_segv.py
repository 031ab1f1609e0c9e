"""crash: SIGSEGV Fatal Python error: Segmentation fault (replay)"""

ARGUMENTS = {'a': 'float32 [n, m, 3] contiguous grid'}
CALLS = [{'n': 1, 'm': 2, 'seed': 0, 'mode': 'no_grad'}, {'n': 0, 'm': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['replay']


def program(a):
    v2 = a.as_strided((2, 2), (1, 1), 1)
    v3 = v2 + -1
    v4 = a.resize_(2)
    return (a, )
