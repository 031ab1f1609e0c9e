"""crash: SIGSEGV Fatal Python error: Segmentation fault (seed 40006313, call)"""

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['a', 'v0', 'v1', 'v10', 'v2', 'v3', 'v4', 'v4[0]', 'v4[1]', 'v4[2]', 'v5', 'v6', 'v9']
WAYS = ['call']


def program(a):
    v6 = a.sum()
    v10 = v6[-1]
    return (a, )
