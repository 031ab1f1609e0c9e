"""does not raise: nothing raised against RuntimeError: setStorage: sizes [1], strides [1], storage offset 0, and itemsize 1 requiring a
storage size of 1 are out of bounds for storage of size 0 (call)"""

ARGUMENTS = {'b': 'float32 [n] contiguous grid'}
CALLS = [{'n': 1, 'seed': 0, 'mode': 'no_grad'}, {'n': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(b):
    v1 = b < b
    v4 = v1.as_strided_((1,), (1,))
    return (v1, )
