"""plain value: result[0][0]: 0 against 2 (seed 97012075, call)"""

ARGUMENTS = {'a': 'float32 [n, 2, m] contiguous grid'}
CALLS = [{'n': 0, 'm': 0, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['b', 'v0', 'v2', 'v4', 'v7']
WAYS = ['call']
HOST = True


def program(a):
    v1 = a < a
    v3 = v1.stride()
    a.diagonal().fill_(0.1)
    return (v3, )
