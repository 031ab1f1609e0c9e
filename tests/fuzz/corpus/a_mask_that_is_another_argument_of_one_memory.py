"""raises: RuntimeError: unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location.
Please clone() the tensor before performing the operation. against NoneType: None (seed 102030634, call)"""

ARGUMENTS = {'a': 'bool [n, 1] contiguous grid', 'b': '= a.t()'}
CALLS = [{'n': 2, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']
HOST = True


def program(a, b):
    v2 = a.shape[0] % 3
    v4 = b.permute(*range(b.dim() - 1, -1, -1))
    a[v4] = v2
    return (v4, )
