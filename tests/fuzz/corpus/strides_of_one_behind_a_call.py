"""recorded again: 1 recordings, 2 when the same calls came again; [['a value that the program reads: expected u0 == 1 (strides read where a
size is 1 or 0, <program -55f8539566938824>:4 in program); u1 == 1 (strides read where a size is 1 or 0, <program -55f8539566938824>:4 in
program)']] (seed 98020472, call)"""

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid', 'b': 'float32 [n] contiguous grid', 'c': '= a.t()'}
CALLS = [{'n': 2, 'm': 1, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']
HOST = True


def program(a, b, c):
    v0 = [c + s for s in range(min(c.shape[0], 3))]
    v1 = v0[0].floor_divide_(2)
    v2 = v0[0].as_strided(v0[0].shape, v0[0].stride())
    return (b, )
