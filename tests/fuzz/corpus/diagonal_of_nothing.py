"""recorded again: 1 recordings, 2 when the same calls came again; [['arg0.size[1]: expected s1 == 1, asked by: exact value read of strides()
at <program 1953d1fcaf7a79fa>:2 in program, seen 0 and 1']] (seed 3001055, call)"""

ARGUMENTS = {'b': 'float32 [n, m] contiguous grid'}
CALLS = [{'n': 0, 'm': 0, 'seed': 0, 'mode': 'no_grad'}]
WAYS = ['call']


def program(b):
    v0 = b.fill_diagonal_(1)
    return (b, )
