"""does not raise: nothing raised against RuntimeError: cannot reshape tensor of 0 elements into shape [0, -1] because the unspecified
dimension size -1 can be any value and is ambiguous (call)"""

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 1, 'seed': 0, 'mode': 'no_grad'}, {'n': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a):
    v1 = a.reshape(a.shape[0], -1)
    return (v1, )
