"""does not raise: NoneType: None against RuntimeError: Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.
(seed 140000223, train)"""

from program import attempt

ARGUMENTS = {'a': 'float32 [n] contiguous grid', 'b': 'bool [n, m] offset normal'}
CALLS = [{'n': 0, 'm': 17, 'seed': 867, 'mode': 'grad'}]
NEAR = ['gradients', 'v2']
WAYS = ['train']
HOST = True


def program(a, b):
    v0 = attempt(lambda: b.add_(a), a)
    v2 = v0.numpy().sum().item()
    return (b, )
