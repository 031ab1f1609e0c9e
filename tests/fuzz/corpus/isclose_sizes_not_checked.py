"""does not raise: nothing raised against RuntimeError: The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension
0 (call)"""

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'no_grad'}, {'n': 3, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a):
    v0 = a[::2]
    v3 = a.isclose(v0)
    v4 = v0.view(*v0.shape, 1)
    return (v4, )
