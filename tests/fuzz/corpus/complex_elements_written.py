"""internal error: 1 (seed 201832, call)"""

ARGUMENTS = {'a': 'complex64 [n] contiguous grid'}
CALLS = [{'n': 1, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']
HOST = True


def program(a):
    for s in range(a.shape[0]): a[s] = s
    return (a, )
