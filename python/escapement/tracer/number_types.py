"""`type(n)` of a recording's numbers, in the program's own functions: int, float and bool, as `n.__class__` and isinstance() say (own_builtins.py)."""

import typing

import torch

from ..recording.arithmetic import NUMBERS, PLAIN
from .tree import PARAMETER
from .while_recording import Replaced, WhileRecording

class TypeOf:
    """Not a class: it would be another one than what `type(type(x))` says."""

    def __call__(self, *args, **kwargs):
        found = type(*args, **kwargs)
        if len(args) != 1:
            return found
        if found is torch.Tensor and PARAMETER in args[0].__dict__:   # stands for a parameter among the arguments
            return torch.nn.Parameter
        return plain_kind(found) if issubclass(found, NUMBERS) else found

    def __instancecheck__(self, value):
        return isinstance(value, type)

    def __subclasscheck__(self, kind):
        return issubclass(kind, type)

    def __mro_entries__(self, bases):
        return (type,)

    def __eq__(self, other):
        return other is self or other is type

    def __hash__(self):
        return hash(type)

    def __getattr__(self, name):
        return getattr(type, name)

    def __getitem__(self, item):
        return type[item]

    def __or__(self, other):
        return type | other

    def __ror__(self, other):
        return other | type

    def __repr__(self):
        return repr(type)


type_of = TypeOf()


def plain_kind(kind):
    return next(plain for number, plain in PLAIN.items() if issubclass(kind, number))


def is_instance_of_union(union, value):
    """`isinstance(n, Union[int, float])`, which else asks for the class of `n` in C."""
    return issubclass(type_of(value), union)


replaced = Replaced(lambda: getattr(typing, "_UnionGenericAlias", None), "__instancecheck__", is_instance_of_union)
unions_ask_them = WhileRecording(replaced.put, replaced.take_back)
