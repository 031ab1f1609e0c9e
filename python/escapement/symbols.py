"""Symbolic numbers as plain Python code expects numbers to behave.

torch's SymInt is made for its own tracers: its text is a symbol's name, it has no hash, and a comparison is an object that
no op takes for a bool (`causal = length > 1 and mask is None`). To a program the first two are reads of the value and the
third is a decision, so here they are: the core pins the value or the relation and reports the place. Arguments that were int
or float say so to `isinstance` when the user's code asks; torch's code must go on to see a symbol. (A size is a plain
SymInt: `isinstance(x.shape[0], int)` is false while recording.)
"""

import functools
import sys

import torch

from . import dispatch
from .locator import FRAMEWORK


def asked_by_framework():
    return sys._getframe(2).f_code.co_filename.startswith(FRAMEWORK)


class ArgumentInt(torch.SymInt):
    @property
    def __class__(self):
        return torch.SymInt if asked_by_framework() else int


class ArgumentFloat(torch.SymFloat):
    @property
    def __class__(self):
        return torch.SymFloat if asked_by_framework() else float


def argument(value):
    """What the function gets for an int or float argument."""
    if type(value) is torch.SymInt:
        return ArgumentInt(value.node)
    return ArgumentFloat(value.node) if type(value) is torch.SymFloat else value


def text(node):
    """As the value would print."""
    return str(value_of(node)) if ours(node) else torch_text(node)


def ours(node):
    """Nested tensors use C++ nodes too, and theirs have no value."""
    return type(node) is torch._C._SymNode and not (node.is_int() and node.is_nested_int())


def value_of(node):
    read = node.guard_int if node.is_int() else node.guard_bool if node.is_bool() else node.guard_float
    return read(__file__, 0)


def format_number(number, specification):
    return format(value_of(number.node), specification) if ours(number.node) else object.__format__(number, specification)


def hash_number(number):
    return hash(value_of(number.node)) if ours(number.node) else torch_hash(number)


def decided(method):
    """The comparison with a bool as its answer, where the program asks."""
    @functools.wraps(method)
    def compare(number, other):
        answer = method(number, other)
        if type(answer) is not torch.SymBool or asked_by_framework() or not ours(answer.node):
            return answer
        return bool(answer)

    return compare


NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
torch_text, torch_hash = torch._C._SymNode._graph_repr, torch.SymInt.__hash__


@functools.cache
def install():
    """Once, before the first recording. Numbers of other tracers keep their behaviour."""
    dispatch.complete_sym_node()
    torch._C._SymNode._graph_repr = torch._C._SymNode.__str__ = text
    torch.SymInt.__hash__ = hash_number
    for kind in (torch.SymInt, torch.SymFloat):
        for name in COMPARISONS:
            setattr(kind, name, decided(getattr(kind, name)))
    for kind in NUMBERS:
        kind.__format__ = format_number
    ArgumentInt.__hash__ = hash_number
