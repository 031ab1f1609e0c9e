"""values: result[0] torch.float32 (3,): 1 of 3 differ, first at (2,): 4.0 against 8.5 (seed 40011370, call)"""

ARGUMENTS = {'a': 'float32 [n, n] contiguous grid'}
CALLS = [{'n': 3, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v2']
WAYS = ['call']


def program(a):
    v1 = a.diagonal()
    v1[1:] += v1[:-1]
    return (v1, )
