"""does not raise: NoneType: None against RuntimeError: unsupported operation: some elements of the input tensor and the written-to tensor
refer to a single memory location. Please clone() the tensor before performing the operation. (seed 63007583, call)"""

ARGUMENTS = {'b': 'float32 [n] expanded grid'}
CALLS = [{'n': 1, 'seed': 0, 'mode': 'no_grad'}, {'n': 2, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v2']
WAYS = ['call']


def program(b):
    v0 = b.narrow(0, 0, 1)
    b[::2] = v0
    return (v0, )
