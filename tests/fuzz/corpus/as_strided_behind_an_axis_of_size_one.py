"""does not raise: NoneType: None against RuntimeError: setStorage: sizes [2], strides [1], storage offset 3, and itemsize 4 requiring a
storage size of 20 are out of bounds for storage of size 12 (seed 100147039, call)"""

ARGUMENTS = {'a': 'float32 [n, m] transposed grid'}
CALLS = [{'n': 3, 'm': 2, 'seed': 0, 'mode': 'no_grad'}, {'n': 1, 'm': 3, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a):
    v0 = a.tensor_split(2)
    v1 = v0[1].as_strided((2,), (1,))
    return (v1, )
