"""What roundings alone can make of a program: its arguments off by a few, or the results of its operators."""

import itertools
import re

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Operators whose results may be other ones within a few roundings: each sum in another order, each function of another library.
ROUNDS = re.compile(r"exp|log|sin|cos|tan|sigmoid|softmax|softplus|norm|sum|mean|prod|var|std|cum|mm|mv|dot|matmul|conv|erf|gelu|silu|elu|celu|mish|pow|sqrt|logit|cdist"
                    r"|attention|lerp|addc|loss|linear|upsample|pool|grid|trapez|entropy|gamma|hypot|angle|cov|corr|polar|sinc|i0|normal")
SCALED = re.compile(r"add|sub|rsub")   # with `alpha`: ATen rounds the product in the last elements of a row, elsewhere only the sum
CANCELS = re.compile(r"logaddexp|logsumexp")   # a sum whose terms may be of opposite signs: off by roundings of these, however small it is
MOST = 4    # roundings of an operator's result
WIDE = 32   # of an argument


def moved(value, most, generator, terms=0.0):
    rounding = most * torch.finfo(value.dtype).eps
    off = (torch.rand(value.shape, generator=generator, dtype=torch.double) * 2 - 1) * rounding
    value.add_((value.double() if value.is_floating_point() else value) * off + terms * off)
    if terms:   # the terms may just as well have cancelled
        value.masked_fill_((value.abs() <= rounding * terms) & (off < 0), 0)


def is_movable(value):
    if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()) or value.requires_grad:
        return False
    return not any(size > 1 and stride == 0 for size, stride in zip(value.shape, value.stride()))


def off_by_roundings(arguments, seed):
    generator = torch.Generator().manual_seed(seed)
    for value in filter(is_movable, arguments.values()):
        moved(value, WIDE, generator)
    return arguments


def largest(arguments):
    found = [x[x.isfinite()].abs().max().item() for x in arguments if isinstance(x, torch.Tensor) and x.is_floating_point() and x.isfinite().any()]
    return max(found, default=0.0)


def made_or_written(operator, result):
    """The tensors among the results of an operator that are no views of what was there."""
    results = result if isinstance(result, (tuple, list)) else (result,)
    told = operator._schema.returns
    for value, said in zip(results, told if len(told) == len(results) else itertools.repeat(told[0])) if told else ():
        if said.alias_info is None or said.alias_info.is_write:
            yield from value if isinstance(value, (tuple, list)) else (value,)


def may_round(operator, arguments):
    name = operator._schema.name.removeprefix("aten::")
    return ROUNDS.search(name) or SCALED.match(name) and arguments.get("alpha", 1) != 1


class Rounded(TorchDispatchMode):
    def __init__(self, seed):
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        if may_round(operator, kwargs or {}):
            with torch.no_grad():
                terms = largest(args) if CANCELS.search(operator._schema.name) else 0.0
                for value in filter(is_movable, made_or_written(operator, result)):
                    moved(value, MOST, self.generator, terms)
        return result

    @classmethod
    def function(cls, function):
        """`function`, each call of which is rounded in another way."""
        seeds = itertools.count()

        def rounded(*arguments):
            with cls(next(seeds)):
                return function(*arguments)

        return rounded
