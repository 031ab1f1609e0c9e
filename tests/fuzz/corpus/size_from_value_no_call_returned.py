"""raises: RuntimeError: ../src/torch/program/program.cpp:210: tensor.defined(): a size is read from a value that no call returned against nothing
raised (call)"""

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'no_grad'}, {'n': 0, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['a', 'v1', 'v2', 'v4', 'v5', 'v6']
WAYS = ['call']


def program(a):
    v3 = a.unique()
    v4 = a / 3
    v6 = v4.cummin(0).values
    return (v6, )
