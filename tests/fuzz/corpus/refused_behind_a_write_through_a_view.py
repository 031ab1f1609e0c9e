"""arguments: a write through a view that a library call made was made again by each further attempt, where an operator behind it refused its
arguments (call)"""

import torch

ARGUMENTS = {'a': 'float32 [n, m] stepped grid'}
CALLS = [{'n': 4, 'm': 3, 'seed': 1, 'mode': 'no_grad'}, {'n': 2, 'm': 4, 'seed': 2, 'mode': 'no_grad'},
         {'n': 5, 'm': 2, 'seed': 3, 'mode': 'no_grad'}]


def program(a):
    a.view(-1).mul_(2)
    v1 = torch.remainder(torch.matmul(a.t(), a).to(torch.int64), a.size(0)).abs()
    a.scatter_add(0, v1, a)
    return (a, )
