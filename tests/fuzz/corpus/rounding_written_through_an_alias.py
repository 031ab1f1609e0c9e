"""values: b torch.float64 (1, 3, 1, 5): 15 of 15 differ, first at (0, 0, 0, 0): 2.1453160495323185 against 2.145316049532318 (seed 93035525,
call)"""

ARGUMENTS = {'b': 'float64 [n, 3, m, h] contiguous grid'}
CALLS = [{'n': 1, 'm': 1, 'h': 5, 'seed': 159, 'mode': 'no_grad'}]
NEAR = ['v0', 'v1', 'v2', 'v4', 'v7']
WAYS = ['call']
HOST = True


def program(b):
    v0 = b.std()
    v1 = b.alias() if hasattr(b, "alias") else b
    v1[::2] = v0
    return (v1, )
