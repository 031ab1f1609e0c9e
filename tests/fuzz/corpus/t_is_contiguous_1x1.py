"""values: result[0] torch.float32 (1, 1): 1 of 1 differ, first at (0, 0): -9.0 against -6.0 (call)"""

ARGUMENTS = {'c': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 1, 'm': 1, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v0', 'v1']
WAYS = ['call']
HOST = True


def program(c):
    v2 = c * (2 if c.t().is_contiguous() else 3)
    return (v2, )
