"""plain value: result[0][0]: 1 against 2 (seed 3004335, replay)"""

ARGUMENTS = {'a': 'float32 [n] stepped grid'}
CALLS = [{'n': 1, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['replay']
HOST = True


def program(a):
    v1 = a.unsqueeze(0).stride()
    return (v1, )
