"""plain value: result[0]: False against True (seed 204610, call)"""

ARGUMENTS = {'a': 'float32 [n] contiguous grid', 'b': '= a[None]'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']
HOST = True


def program(a, b):
    v7 = b._is_view()
    return (v7, )
