"""shape: result[0]: torch.Size([2, 3, 0, 0]) against torch.Size([1, 3, 0, 0]) (call)"""

ARGUMENTS = {'b': 'float32 [n, 3, m, h] permuted grid'}
CALLS = [{'n': 2, 'm': 1, 'h': 1, 'seed': 0, 'mode': 'grad'}, {'n': 2, 'm': 0, 'h': 0, 'seed': 0, 'mode': 'grad'}]
WAYS = ['call']
HOST = True


def program(b):
    v3 = b[:1] if b.is_contiguous() else b
    return (v3, )
