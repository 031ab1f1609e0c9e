"""Eager, where vectors and the rest of a row have two answers: `fmod` and `remainder` of float32 give up in vectors where the quotient is very large, and
give a NaN of another sign where they divide by zero; `softshrink` gives 0 in vectors and the number's own zero in the rest. Here all is exact, or
as in vectors: a program that agrees with that is right."""

import re

import torch
from torch.utils._python_dispatch import TorchDispatchMode

TWO_ANSWERS = re.compile(r"remainder|fmod| % | %= |softshrink")
OPERATOR = re.compile(r"aten::(_foreach_)?(fmod|remainder)(_?)$")


def exact(left, right, floored):
    """Of float32, half types: double precision represents all of them, and C's fmod is exact. One NaN stands for all."""
    import numpy as np

    with np.errstate(all="ignore"):
        rest = torch.from_numpy(np.fmod(left.double().numpy(), right.double().numpy()))
    rest = rest.to(left.dtype)
    if floored:
        rest = torch.where((rest != 0) & ((rest < 0) != (right < 0)), rest + right, rest)
    return torch.where(rest.isnan(), torch.full_like(rest, float("nan")), rest)


class Applied(TorchDispatchMode):
    @classmethod
    def function(cls, function):
        """`function`, each call of which runs under such a mode."""
        def run(*arguments):
            with cls():
                return function(*arguments)

        return run


class OneAnswer(Applied):
    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if operator is torch.ops.aten.softshrink.default:
            return operator(*args, **(kwargs or {})).add_(0.0)
        found = OPERATOR.match(operator._schema.name)
        if found and not found[1] and not kwargs and len(args) == 2 and (made := self.made(found[2], *args)) is not None:
            return (args[0] if found[3] else operator(*args)).copy_(made)   # laid out as eager lays it out
        return operator(*args, **(kwargs or {}))

    @staticmethod
    def made(name, left, right):
        dtype = torch.result_type(left, right)
        if not dtype.is_floating_point or dtype == torch.float64:
            return None
        plain = [torch.as_tensor(side).detach().to(dtype) for side in (left, right)]
        return exact(*torch.broadcast_tensors(*plain), floored=name == "remainder")
