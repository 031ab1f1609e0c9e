"""raises another: RuntimeError: Runtime assertion failed for expression u0 >= 1 on node 'ge_1' against AssertionError:  (seed 129950447,
compile)"""

ARGUMENTS = {'a': 'int32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'no_grad'}]
NEAR = ['b', 'v1', 'v2', 'v3']
WAYS = ['compile']
HOST = True


def program(a):
    assert a.sum().item() >= 1
    return (a, )
