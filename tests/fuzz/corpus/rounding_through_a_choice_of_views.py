"""values: a torch.float32 (5,): 4 of 5 differ, first at (0,): 2.1052963733673096 against 2.1052961349487305 (seed 93036432, call)"""

ARGUMENTS = {'a': 'float32 [m] contiguous normal'}
CALLS = [{'m': 5, 'seed': 477, 'mode': 'no_grad'}]
NEAR = ['v0', 'v1', 'v2', 'v3', 'v4']
WAYS = ['call']
HOST = True


def program(a):
    v0 = a.t() if a.numel() > 4 else a.clone()
    v1 = v0.norm()
    v0 += v1
    return (v1, )
