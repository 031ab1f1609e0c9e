"""What a library call returns may have elements that share their memory: it is as long as its strides say, not as its sizes."""

ARGUMENTS = {'a': 'float32 [n, m] expanded grid'}
CALLS = [{'n': 2, 'm': 2, 'seed': 0, 'mode': 'inference'}, {'n': 2, 'm': 1, 'seed': 0, 'mode': 'inference'}]
WAYS = ['call']


def program(a):
    v1 = a.as_strided(a.shape, a.stride())
    v2 = v1.as_strided((2,), (1,))
    return (a, )
