"""raises: TypeError: unsupported operand type(s) for divmod(): 'SymInt' and 'int' against nothing raised (call)"""

ARGUMENTS = {'b': 'float32 [n] contiguous grid', 'c': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 0, 'm': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']
HOST = True


def program(b, c):
    c.diagonal().fill_(-1.5)
    v4 = divmod(b.numel(), 2)
    return (v4, )
