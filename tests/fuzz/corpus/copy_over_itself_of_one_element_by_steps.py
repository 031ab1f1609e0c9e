"""does not raise: NoneType: None against RuntimeError: unsupported operation: some elements of the input tensor and the written-to tensor
refer to a single memory location. Please clone() the tensor before performing the operation. (seed 60041400, call)"""

ARGUMENTS = {'a': 'float32 [n] contiguous grid', 'c': 'float32 [m] stepped grid'}
CALLS = [{'n': 0, 'm': 1, 'seed': 0, 'mode': 'no_grad'}, {'n': 0, 'm': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a, c):
    c[::2] = c
    return (a, )
