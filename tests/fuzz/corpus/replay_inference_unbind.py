"""raises: RuntimeError: Inference tensors do not track version counter. against nothing raised (replay)"""

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 0, 'seed': 0, 'mode': 'inference'}, {'n': 1, 'seed': 0, 'mode': 'inference'}]
NEAR = ['v2', 'v4']
WAYS = ['replay']
HOST = True


def program(a):
    v2 = a.expand(a.shape)
    v5 = a.numpy().sum().item()
    v7 = v2.unbind(0)
    return (v2, )
