"""sharing: ('result[0]', 'a'): None against the same (call)"""

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'no_grad'}, {'n': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a):
    v0 = a.set_(a.clone())
    return (a, )
