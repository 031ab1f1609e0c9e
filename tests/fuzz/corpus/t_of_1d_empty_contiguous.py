"""does not raise: nothing raised against IndexError: index 0 is out of bounds for dimension 0 with size 0 (call)"""

ARGUMENTS = {'b': 'float32 [n] contiguous grid', 'c': 'float32 [n] stepped grid'}
CALLS = [{'n': 2, 'seed': 0, 'mode': 'no_grad'}, {'n': 0, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['a', 'v1']
WAYS = ['call']
HOST = True


def program(b, c):
    if c.t().is_contiguous(): b[0] = 3
    return (b, )
