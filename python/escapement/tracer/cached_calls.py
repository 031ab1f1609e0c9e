"""functools.lru_cache in a program that is recorded (`src/torch/python/cached_calls.h`). Its functions are called with the numbers themselves, which is a
recording for each; but where a function's code says that its result comes from its arguments alone (pure.py) it is run on symbols, beside the cache: the padded
length of a sequence, the shapes that einops computes.
"""

import functools

import torch

from ..core import core
from ..recording.arithmetic import NUMBERS
from .homes import of_package, source_of
from .number_types import plain_kind
from .objects import is_a
from .pure import KIND, globals_of_pure, is_constant

HOLDERS = (tuple, frozenset, torch.Size)
RESULTS = (tuple, torch.Size)
OF_PACKAGES = (list, dict)   # among results: who caches such does not write to them


@functools.cache
def plain_numbers_are_cached():
    """For good."""
    if type(KIND) is type:   # of C; one in Python has its keys where the aftermath of a recording finds them
        core().cached_calls(KIND, called)


def called(cached, args, kwargs):
    """What is called in its place, or None, and with which arguments."""
    given = (*args, *(kwargs or {}).values())
    if any(map(holds_numbers, given)) and may_run(cached, given):
        return run, (cached, *args), kwargs
    return None, *plain_arguments(args, kwargs)


def run(cached, /, *args, **kwargs):
    result = cached.__wrapped__(*args, **kwargs)
    if is_plain_result(result, of_package(source_of(cached.__wrapped__))):
        return result
    args, kwargs = plain_arguments(args, kwargs)
    return cached(*args, **kwargs)


def may_run(cached, given):
    function = getattr(cached, "__wrapped__", None)
    found = globals_of_pure(function)
    if found is None or not found.same():
        return False
    packaged = of_package(source_of(function))
    return all(is_plain(value) or packaged and is_known_by_identity(value) for value in given)


def holds_numbers(value):
    return is_a(value, NUMBERS) or type(value) in HOLDERS and any(map(holds_numbers, value))


def is_plain(value):
    return is_a(value, NUMBERS) or is_constant(value) or type(value) in HOLDERS and all(map(is_plain, value))


def is_known_by_identity(value):
    """So that a cache knows no other as the same."""
    return type(value).__hash__ is object.__hash__ and not is_a(value, (torch.nn.Module, torch.Tensor))


def is_plain_result(value, packaged):
    if packaged and type(value) in OF_PACKAGES:
        value = tuple(value.items()) if type(value) is dict else tuple(value)
    return is_plain(value) or type(value) in RESULTS and all(is_plain_result(item, packaged) for item in value)


def plain_arguments(args, kwargs):
    return tuple(map(plain, args)), kwargs and {name: plain(value) for name, value in kwargs.items()}


def plain(value):
    if is_a(value, NUMBERS):
        return plain_kind(type(value))(value)
    if type(value) in HOLDERS:
        return type(value)(map(plain, value))
    return value._make(map(plain, value)) if is_a(value, tuple) and hasattr(value, "_make") else value
