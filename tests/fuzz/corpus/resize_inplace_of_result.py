"""raises: RuntimeError: Trying to resize storage that is not resizable against nothing raised (call)"""

ARGUMENTS = {'a': 'float32 [1, m] contiguous grid', 'b': 'float32 [4, 4] contiguous grid'}
CALLS = [{'m': 1, 'seed': 0, 'mode': 'no_grad'}, {'m': 1, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['a', 'v1', 'v7']
WAYS = ['call']


def program(a, b):
    v3 = a.max(-1)
    v4 = v3[0].resize_(2)
    return (b, )
