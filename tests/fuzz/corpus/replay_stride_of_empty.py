"""does not raise: NoneType: None against ValueError: asked for (seed 200069, replay)"""

ARGUMENTS = {'a': 'float32 [n, m] contiguous grid', 'b': '= a.detach()'}
CALLS = [{'n': 0, 'm': 0, 'seed': 0, 'mode': 'no_grad'}, {'n': 0, 'm': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['replay']
HOST = True


def program(a, b):
    v0 = b.all(-2, keepdim=True)
    if v0.stride(0) == 1: raise ValueError("asked for")
    return (b, )
