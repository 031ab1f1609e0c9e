"""does not raise: a view is not detached in place (seed 50119635, call)"""

ARGUMENTS = {'a': 'float32 [n] contiguous grid', 'c': 'float32 [n] expanded grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'no_grad'}, {'n': 1, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a, c):
    v0 = c.detach_()
    return (a, )
