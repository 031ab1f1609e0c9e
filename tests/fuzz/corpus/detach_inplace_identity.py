"""sharing: ('result[0]', 'a'): 0 against the same (call)"""

ARGUMENTS = {'a': 'float32 [] contiguous grid'}
CALLS = [{'seed': 0, 'mode': 'no_grad'}, {'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a):
    v0 = a.detach_()
    return (a, )
