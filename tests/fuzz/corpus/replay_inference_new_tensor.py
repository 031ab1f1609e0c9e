"""raises: RuntimeError: DispatchKey DeferredInit doesn't correspond to a device against nothing raised (replay)"""

ARGUMENTS = {'b': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'inference'}, {'n': 0, 'seed': 0, 'mode': 'inference'}]
WAYS = ['replay']


def program(b):
    v3 = b.squeeze(0)
    v8 = v3.new_tensor([1, 2, 3])
    return (v3, )
