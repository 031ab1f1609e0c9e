"""does not raise: NoneType: None against IndexError: index 2 is out of bounds for dimension 0 with size 1 (seed 200256, call)"""

ARGUMENTS = {'a': 'int64 [n] contiguous index', 'b': 'float32 [] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'grad'}, {'n': 1, 'seed': 910, 'mode': 'grad'}]
WAYS = ['call']


def program(a, b):
    v2 = a[a]
    return (b, )
