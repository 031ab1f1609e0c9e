"""plain value: result[0][0]: 0 against 1 (call)"""

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 0, 'm': 0, 'seed': 0, 'mode': 'no_grad'}, {'n': 0, 'm': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']
HOST = True


def program(a):
    v0 = a.stride()
    return (v0, )
