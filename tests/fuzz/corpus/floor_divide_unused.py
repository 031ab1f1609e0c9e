"""crash: Assertion '__n < this->size()' failed. (call)"""

ARGUMENTS = {'a': 'float32 [n] contiguous grid', 'b': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a, b):
    v1 = a // 2
    return (b, )
