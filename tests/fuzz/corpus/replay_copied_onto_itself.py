"""raises: RuntimeError: unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location.
Please clone() the tensor before performing the operation. against NoneType: None (seed 200017, replay)"""

ARGUMENTS = {'a': 'int64 [n, m] contiguous grid', 'd': 'float32 [n, 2, m] contiguous zero'}
CALLS = [{'n': 3, 'm': 0, 'seed': 775, 'mode': 'no_grad'}, {'n': 1, 'm': 3, 'seed': 434, 'mode': 'no_grad'}]
WAYS = ['replay']


def program(a, d):
    v4 = a.split(1, 1)
    v4[0][None] += 1
    return (v4, )
