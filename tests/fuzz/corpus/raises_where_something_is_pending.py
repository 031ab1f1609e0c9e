"""raises another: SystemError: error return without exception set against IndexError: tuple index out of range (seed 913004028, call)"""

ARGUMENTS = {'a': 'float32 [n, 2, m] permuted grid'}
CALLS = [{'n': 2, 'm': 2, 'seed': 0, 'mode': 'grad'},
 {'n': 1, 'm': 3, 'seed': 0, 'mode': 'grad'},
 {'n': 3, 'm': 1, 'seed': 0, 'mode': 'grad'},
 {'n': 1, 'm': 2, 'seed': 0, 'mode': 'grad'},
 {'n': 2, 'm': 4, 'seed': 924, 'mode': 'grad'},
 {'n': 1, 'm': 1, 'seed': 924, 'mode': 'grad'},
 {'n': 3, 'm': 4, 'seed': 924, 'mode': 'grad'},
 {'n': 2, 'm': 1, 'seed': 924, 'mode': 'grad'},
 {'n': 3, 'm': 3, 'seed': 924, 'mode': 'grad'},
 {'n': 3, 'm': 2, 'seed': 924, 'mode': 'grad'}]
WAYS = ['call']


def program(a):
    v0 = a.nonzero(as_tuple=True)
    v2 = v0[2].unflatten(0, (-1, 1))
    v3 = v0[0].unbind()
    v4 = v2.sort().values
    v7 = v3[0].add(True).mul(v3[1])
    return (v3[2], )
