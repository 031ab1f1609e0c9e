"""Python's `math`, `int()` and `float()` of a recording's numbers (`src/torch/python/number_calls.h`): expressions where eager's number is known to the last bit, else
the number is read, as it is for torch's own code, which asks for a value when it says `int(n)`. What an argument must be for the function to be defined is a relation asked of the core, so that errors are Python's own.
"""

import functools
import math
import sys

import torch

from ..core import RECORDER_KEY, core
from .arithmetic import NUMBERS, PLAIN, is_float_exactly, ours, plain
from .locator import FRAMEWORK

TENSORS = torch.Tensor, torch.nn.Parameter, torch.nn.Buffer
READ = torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64
KEY = torch._C._dispatch_key_parse(RECORDER_KEY)
EXACT = 2 ** 52        # up to there the root of an integer, rounded, is below that of the next
LARGEST = 700          # whose exponential is finite
ANY = 2.0 ** 1000      # neither infinite nor NaN; of an integer it is not asked


@functools.cache
def numbers_are_called():
    """For good."""
    core().number_calls(torch.SymInt, torch.SymFloat, TENSORS, {getattr(math, name): by_kind(name) for name in SAID}, {int: as_int, float: as_float, len: length})


def by_kind(name):
    """Of what is no number of ours, or where the function is not defined, Python's own."""
    own, said = getattr(math, name), SAID[name]

    def call(*args):
        found = said(*args) if all(map(is_known, args)) and asks_as_program() else None
        return own(*map(plain, args)) if found is None else found
    return call


def is_known(number):
    return type(number) in (int, float) or isinstance(number, NUMBERS) and ours(number.node)


def asks_as_program():
    """The function that called ours."""
    return not sys._getframe(2).f_code.co_filename.startswith(FRAMEWORK)


def as_int(number):
    if type(number) in TENSORS:
        read = item(number, asks_as_program())
        return number.__int__() if read is None else as_int_of(read)
    return as_int_of(number) if ours(number.node) and asks_as_program() else number.__int__()


def as_int_of(number):
    return number if isinstance(number, torch.SymInt) else math.trunc(number)


def as_float(number):
    """An integer that is rounded is no expression: what is made of it may be an integer again."""
    if type(number) in TENSORS:
        read = item(number, asks_as_program() and number.is_floating_point())
        return number.__float__() if read is None else read
    known = ours(number.node) and asks_as_program() and (isinstance(number, torch.SymFloat) or is_float_exactly(number))
    return torch.sym_float(number) if known else number.__float__()


def item(tensor, wanted):
    """What `int(tensor)` reads is what `tensor.item()` does, which is a symbol."""
    found = tensor.item() if wanted and is_recorded(tensor) and tensor.dim() == 0 and tensor.dtype in READ else None
    return found if isinstance(found, (torch.SymInt, torch.SymFloat)) else None


def length(value):
    """Of a tensor the size of its first axis."""
    if isinstance(value, NUMBERS):
        raise TypeError(f"object of type '{PLAIN[type(value).__base__].__name__}' has no len()")
    return value.shape[0] if type(value) in TENSORS and is_recorded(value) and value.dim() and asks_as_program() else value.__len__()


def is_recorded(tensor):
    return torch._C._dispatch_keys(tensor).has(KEY)


# --- each returns None where it is not made for the arguments

def sqrt(number):
    return torch.SymFloat(torch.sym_float(number).node.sym_sqrt()) if number >= 0 else None


def isqrt(number):
    return math.floor(sqrt(number)) if isinstance(number, torch.SymInt) and 0 <= number < EXACT else None


def log2(number):
    return torch.SymFloat(torch.sym_float(number).node.sym_log2()) if number > 0 else None


def log(number, *base):
    found = of_libm("log", number) if lies_between(number, 0, ANY) else None
    return found / math.log(*base) if base and found is not None else found


def power(base, exponent):
    return torch.sym_float(base) ** torch.sym_float(exponent) if base > 0 else None


def absolute(number):
    return abs(torch.sym_float(number))


def where(name, low, high):
    """Of numbers between these."""
    return lambda number: of_libm(name, number) if lies_between(number, low, high) else None


def lies_between(number, low, high):
    unbounded = isinstance(number, torch.SymInt)
    return (unbounded and low == -ANY or low < number) and (unbounded and high == ANY or number < high)


def of_libm(name, number):
    """By an operator that calls the C library at run time, as Python does."""
    core().says_otherwise()
    value = torch.full((), torch.sym_float(number), dtype=torch.float64, device="cpu")
    return getattr(torch.ops.escapement, name)(value).item()


SAID = {
    "sqrt": sqrt, "isqrt": isqrt, "log2": log2, "log": log, "pow": power, "fabs": absolute, "log10": where("log10", 0, ANY), "log1p": where("log1p", -1, ANY),
    "exp": where("exp", -LARGEST, LARGEST), "expm1": where("expm1", -LARGEST, LARGEST), **{name: where(name, -ANY, ANY) for name in ("sin", "cos", "tan", "tanh", "atan")},
}
