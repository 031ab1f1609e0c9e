"""raises: RuntimeError: unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location.
Please clone() the tensor before performing the operation. against NoneType: None (seed 100132821, call)"""

ARGUMENTS = {'b': 'float32 [n, 1] expanded grid'}
CALLS = [{'n': 2, 'seed': 0, 'mode': 'no_grad'}, {'n': 1, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(b):
    v0 = b.unsqueeze(-1)
    v0[:, 0] = b
    return (v0, )
