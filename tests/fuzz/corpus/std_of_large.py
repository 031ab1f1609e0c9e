"""values: result[0] torch.float32 (11,): 2 of 11 differ, first at (1,): inf against 1.3416408304623507e+38 (replay)"""

ARGUMENTS = {'c': 'float32 [n, m] contiguous special'}
CALLS = [{'n': 0, 'm': 0, 'seed': 0, 'mode': 'grad'}, {'n': 5, 'm': 11, 'seed': 35, 'mode': 'grad'}]
NEAR = ['v1', 'v2']
WAYS = ['replay']


def program(c):
    v1 = c.std(0)
    return (v1, )
