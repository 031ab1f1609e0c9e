"""plain value: result[0][0]: 1 against 2 (seed 3005798, replay)"""

ARGUMENTS = {'a': 'float32 [n] stepped grid'}
CALLS = [{'n': 1, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['replay']
HOST = True


def program(a):
    v1 = a.reshape(-1)
    v2 = v1.stride()
    return (v2, )
