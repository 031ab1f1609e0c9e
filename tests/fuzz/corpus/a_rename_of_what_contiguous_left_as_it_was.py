"""shape: a: torch.Size([0]) against torch.Size([1, 0]) (seed 117102515, call)"""

ARGUMENTS = {'a': 'complex64 [n] stepped grid'}
CALLS = [{'n': 2, 'seed': 0, 'mode': 'no_grad'}, {'n': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(a):
    v0 = a.contiguous()
    v4 = v0.unsqueeze_(0)
    return (v4, )
