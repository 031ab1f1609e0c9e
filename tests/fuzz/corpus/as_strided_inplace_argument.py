"""shape: a: torch.Size([2]) against torch.Size([1]) (call)"""

ARGUMENTS = {'a': 'float32 [n] contiguous grid'}
CALLS = [{'n': 1, 'seed': 0, 'mode': 'grad'}, {'n': 2, 'seed': 0, 'mode': 'grad'}]
WAYS = ['call']


def program(a):
    v2 = a.as_strided_((1,), (1,))
    return (v2, )
