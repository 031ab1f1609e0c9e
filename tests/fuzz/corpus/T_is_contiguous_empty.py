"""plain value: result[0]: False against True (call)"""

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 0, 'm': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']
HOST = True


def program(a):
    v3 = a.T.is_contiguous()
    return (v3, )
