"""does not raise: nothing raised against RuntimeError: setStorage: sizes [2, 2], strides [1, 1], storage offset 1, and itemsize 1 requiring a
storage size of 4 are out of bounds for storage of size 0 (call)"""

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 4, 'm': 0, 'seed': 0, 'mode': 'no_grad'}, {'n': 0, 'm': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a):
    v2 = a.any(-1)
    v6 = v2.as_strided((2, 2), (1, 1), 1)
    return (v2, )
