"""raises: IndexError: index 0 is out of bounds for dimension 0 with size 0 against NoneType: None (seed 111016015, call)"""

ARGUMENTS = {'b': 'float64 [n, m] stepped grid', 'k': 'number'}
CALLS = [{'m': 0, 'n': 2, 'k': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']
HOST = True


def program(b, k):
    v1 = b.T
    v2 = v1.floor_divide(k)
    v4 = b.logical_not_()
    if v2.stride(0) == 1: v1[0] = 3
    return (b, )
