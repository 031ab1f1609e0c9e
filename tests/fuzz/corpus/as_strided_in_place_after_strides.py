"""internal error: 1 (seed 40009651, call)"""

ARGUMENTS = {'a': 'float32 [4, 4] contiguous grid'}
CALLS = [{'seed': 0, 'mode': 'no_grad'}]
NEAR = ['v10']
WAYS = ['call']
HOST = True


def program(a):
    v1 = a.sign()
    v4 = v1.stride()
    v9 = v1.as_strided_((1,), (1,))
    return (v4, )
