"""shape: result[0]: torch.Size([0]) against torch.Size([0, 1]) (call)"""

ARGUMENTS = {'a': 'float32 [n] stepped grid'}
CALLS = [{'n': 2, 'seed': 0, 'mode': 'no_grad'}, {'n': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']
HOST = True


def program(a):
    v0 = a.view(*a.shape, 1)
    v1 = v0 if v0.t().is_contiguous() else a
    return (v1, )
