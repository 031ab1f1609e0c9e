"""raises: IndexError: index 0 is out of bounds for dimension 0 with size 0 against NoneType: None (seed 95054161, call)"""

ARGUMENTS = {'a': 'float32 [n] stepped grid', 'b': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']
HOST = True


def program(a, b):
    v0 = a.clone().uniform_()
    if v0.stride(0) == 1: b[0] = 3
    return (a, )
