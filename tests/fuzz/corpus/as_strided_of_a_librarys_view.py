"""values: result[0] torch.complex64 (2, 2): 4 of 4 differ, first at (0, 0): (-1.5+2.5j) against (2-0.5j) (seed 60048360, call)"""

ARGUMENTS = {'a': 'complex64 [1, m] contiguous grid', 'c': '= a[1:]'}
CALLS = [{'m': 5, 'seed': 0, 'mode': 'no_grad'}, {'m': 11, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a, c):
    v2 = c.transpose(0, -1).reshape(-1)
    v3 = v2.as_strided((2, 2), (1, 1), 1)
    return (v3, )
