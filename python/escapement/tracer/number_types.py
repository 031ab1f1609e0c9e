"""`type(n)` of a recording's numbers, in the program's own functions: int, float and bool, as `n.__class__` and isinstance() say. While it is recorded, the
modules whose functions name `type` find `type_of` under that name instead of the builtin, which does for everything else what the builtin does."""

import contextlib
import typing

import torch

from ..recording.arithmetic import NUMBERS, PLAIN
from .names import globals_in
from .tree import PARAMETER
from .while_recording import STAND_INS, Absent, Replaced, WhileRecording

NAME = "type"


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
STAND_INS[id(type_of)] = Absent


def plain_kind(kind):
    return next(plain for number, plain in PLAIN.items() if issubclass(kind, number))


def is_builtin_type(name, space):
    return name == NAME and space.get(NAME, type_of) is type_of


def modules_naming_it(functions):
    """The names of each module of which a function means the builtin by it."""
    spaces = (function.__globals__ for function in functions if NAME in globals_in(function.__code__))
    return [*{id(space): space for space in spaces if is_builtin_type(NAME, space)}.values()]


def replaced_in(space):
    def put():
        space.setdefault(NAME, type_of)

    def take_back():
        if space.get(NAME) is type_of:
            del space[NAME]

    return WhileRecording(put, take_back)


def is_instance_of_union(union, value):
    """`isinstance(n, Union[int, float])`, which else asks for the class of `n` in C."""
    return issubclass(type_of(value), union)


replaced = Replaced(lambda: getattr(typing, "_UnionGenericAlias", None), "__instancecheck__", is_instance_of_union)
unions_ask_them = WhileRecording(replaced.put, replaced.take_back)
known = {}   # of a module's names, by their id: (the names, what replaces it there)


@contextlib.contextmanager
def numbers_have_types(spaces):
    with contextlib.ExitStack() as held:
        held.enter_context(unions_ask_them())
        for space in spaces:
            if id(space) not in known:
                known.setdefault(id(space), (space, replaced_in(space)))
            held.enter_context(known[id(space)][1]())
        yield
