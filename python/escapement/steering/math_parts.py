"""Functions of `math` and NumPy that a program gives a size, in terms that Dynamo knows or that the C library computes at run time: for size_arguments.py, as the
functions of torch in recording/size_parts.py. In `escapement.jit`: recording/number_calls.py.
"""

import math
import sys

import torch

from ..recording.number_calls import EXACT, LARGEST

AT_RUN_TIME = set()   # functions whose result is a value of the data


def of_libm(name, low=None, high=None):
    """Of numbers between these; elsewhere Python raises."""
    operator = getattr(torch.ops.escapement, name)

    def function(number, *base):
        if base or low is not None and not number > low or high is not None and not number < high:
            return None
        return operator(torch.full((), float(number), dtype=torch.float64, device="cpu")).item()
    AT_RUN_TIME.add(function)
    return function


def parts_of_math():
    found = {math.log: of_libm("log", 0), math.log10: of_libm("log10", 0), math.log1p: of_libm("log1p", -1), math.exp: of_libm("exp", -LARGEST, LARGEST), math.expm1: of_libm("expm1", -LARGEST, LARGEST)}
    return found | {math.pow: power, math.isqrt: isqrt}


def power(base, exponent):
    return float(base) ** float(exponent) if base > 0 else None


def isqrt(number):
    return math.floor(math.sqrt(number)) if 0 <= number < EXACT else None


def product(sizes):
    total = 1
    for size in sizes:
        total = total * size
    return total


def root(number):
    return math.sqrt(number) if number >= 0 else None


def ceiling(number):
    return float(math.ceil(number))


def floor(number):
    return float(math.floor(number))


def parts_of_numpy():
    numpy = sys.modules.get("numpy")
    return {} if numpy is None else {numpy.prod: product, numpy.sqrt: root, numpy.ceil: ceiling, numpy.floor: floor}
