"""raises: RuntimeError: DispatchKey DeferredInit doesn't correspond to a device against NoneType: None (seed 200105, call)"""

ARGUMENTS = {'a': 'int16 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 974, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a):
    v1 = a.bitwise_not_()
    v2 = a.new_tensor([1, 2, 3])
    return (v2, )
