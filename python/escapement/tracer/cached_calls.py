"""functools.lru_cache in a program that is recorded: its functions are called with the numbers themselves (`src/torch/python/cached_calls.h`)."""

import functools

import torch

from ..core import core
from ..recording.arithmetic import NUMBERS
from .number_types import plain_kind
from .objects import is_a

HOLDERS = (tuple, frozenset, torch.Size)
KIND = getattr(functools, "_lru_cache_wrapper", None)


@functools.cache
def plain_numbers_are_cached():
    """For good."""
    if type(KIND) is type:   # of C; one in Python has its keys where the aftermath of a recording finds them
        core().cached_calls(KIND, plain_arguments)


def plain_arguments(args, kwargs):
    return tuple(map(plain, args)), kwargs and {name: plain(value) for name, value in kwargs.items()}


def plain(value):
    if is_a(value, NUMBERS):
        return plain_kind(type(value))(value)
    if type(value) in HOLDERS:
        return type(value)(map(plain, value))
    return value._make(map(plain, value)) if is_a(value, tuple) and hasattr(value, "_make") else value
