"""raises: IndexError: tuple index out of range against nothing raised (replay)"""

ARGUMENTS = {'c': 'float32 [n] contiguous grid'}
CALLS = [{'n': 1, 'seed': 0, 'mode': 'no_grad'}, {'n': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['replay']


def program(c):
    v2 = c.chunk(2)
    return (v2[1], )
