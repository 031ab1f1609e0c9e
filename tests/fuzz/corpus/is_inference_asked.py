"""plain value: result[0]: True against False (seed 1000493, call)"""

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'inference'}]
WAYS = ['call']
HOST = True


def program(a):
    v1 = a.is_inference()
    return (v1, )
