"""sharing: ('result[0]', 'b'): None against the same (call)"""

ARGUMENTS = {'b': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'no_grad'}, {'n': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(b):
    v1 = b.t_()
    return (b, )
