"""Symbolic numbers as plain Python code expects numbers to behave.

torch's SymInt is made for its own tracers: its text is a symbol's name, it has no hash, it is no int, it lacks half of int's methods
(arithmetic.py), and a comparison is an object that no op takes for a bool (`causal = length > 1 and mask is None`). To a program texts
and hashes are reads of the value and a comparison is a decision, so here they are: the core pins the value or the relation and reports
the place. `isinstance` says int, float or bool when the program asks; torch's code must go on to see a symbol. An integer beyond 32 bits is read, too:
torch's constructors (`torch.tensor(n)`, `torch.Tensor([n])`) take a symbol for an int of C.

Numbers whose node is the core's are made as the classes below; those of other tracers are torch's and behave as ever.
"""

import abc
import functools
import math
import numbers
import operator
import sys
import threading
import weakref

import torch

from ..core import core
from . import dispatch
from .arithmetic import NUMBERS, PLAIN, complete, ours, plain, value_of
from .locator import FRAMEWORK

COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")

# Of NumPy's functions those that ask an object's operators, and are given what NumPy has no narrower type for.
BY_OPERATORS = frozenset((
    "add", "subtract", "multiply", "divide", "true_divide", "floor_divide", "remainder", "power", "negative", "absolute", "less", "less_equal", "greater",
    "greater_equal", "equal", "not_equal", "maximum", "minimum",
))
AS_FLOATS = {"floor": math.floor, "ceil": math.ceil}   # of a float: a float in NumPy, an integer in Python


CHECKS = abc.ABCMeta.__instancecheck__.__code__   # of `isinstance(n, numbers.Number)`: who wrote that asks


def asked_by_framework():
    asker = sys._getframe(2)
    if asker.f_code is CHECKS:
        asker = asker.f_back
    return asker.f_code.co_filename.startswith(FRAMEWORK)


class Number:
    """What all three have in common; each is also one of torch's classes."""

    @property
    def __class__(self):
        return type(self) if asked_by_framework() else PLAIN[type(self).__base__]

    def __repr__(self):
        return repr(value_of(self.node))

    def __format__(self, specification):
        return format(value_of(self.node), specification)

    def __hash__(self):
        return hash(value_of(self.node))

    def __array_ufunc__(self, ufunc, method, *inputs, **given):
        """NumPy: what it does by Python's operators stays an expression, and roots; for all else (`np.log(n)`) the number is read."""
        if ufunc.__name__ in AS_FLOATS and method == "__call__" and isinstance(inputs[0], torch.SymFloat) and not given:
            return torch.sym_float(AS_FLOATS[ufunc.__name__](inputs[0]))
        if ufunc.__name__ == "sqrt" and method == "__call__" and not given and not isinstance(inputs[0], torch.SymBool) and inputs[0] >= 0:
            return torch.SymFloat(torch.sym_float(inputs[0]).node.sym_sqrt())
        if ufunc.__name__ in BY_OPERATORS and all(map(is_wide_enough, inputs)):
            inputs = [as_object(value) if isinstance(value, NUMBERS) else value for value in inputs]
        else:
            inputs = [plain(value) for value in inputs]
        return getattr(ufunc, method)(*inputs, **given)

    def __reduce_ex__(self, protocol):
        value = value_of(self.node)   # what is pickled is the number
        return type(value), (value,)


# Comparisons with what no integer of the core reaches: (with such a number above, below).
BEYOND = {"__eq__": (False, False), "__ne__": (True, True), "__lt__": (True, False), "__le__": (True, False), "__gt__": (False, True), "__ge__": (False, True)}


EXACT = frozenset((int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool))


def of_its_base(other):
    """A member of an IntEnum and its like is equal to the number that it is."""
    if type(other) in EXACT:
        return other
    for base in (int, float):
        if isinstance(other, base) and type(other).__eq__ is base.__eq__:
            return base(other)
    return other


MIRRORED = {"__eq__": "__eq__", "__ne__": "__ne__", "__lt__": "__gt__", "__le__": "__ge__", "__gt__": "__lt__", "__ge__": "__le__"}


def compared_by_value(name, method, number, other):
    """torch's numbers know Python's own; others are asked in turn, as Python does. Where neither knows the other (a decimal and half a size) the size is read."""
    answer = method(number, other)
    if answer is NotImplemented and isinstance(other, numbers.Number):
        answer = getattr(type(other), MIRRORED[name])(other, number)
        if answer is NotImplemented:
            answer = getattr(operator, name.strip("_"))(value_of(number.node), other)
    return answer


def decided(name, method):
    """The comparison with a bool as its answer, where the program asks."""
    @functools.wraps(method)
    def compare(number, other):
        if type(other) is int and isinstance(number, torch.SymInt) and not -2**63 <= other < 2**63:
            return BEYOND[name][other < 0]
        if isinstance(other, complex) and name in ("__eq__", "__ne__"):
            if other.imag:
                return name == "__ne__"
            other = other.real
        if type(other) in EXACT:
            answer = method(number, other)
        else:
            answer = compared_by_value(name, method, number, of_its_base(other))
        return answer if not isinstance(answer, torch.SymBool) or asked_by_framework() else bool(answer)

    return compare


def is_wide_enough(value):
    """Whether NumPy computes with it as Python does: not its narrower numbers, which overflow, nor arrays, whose elements are of C."""
    dtype = getattr(value, "dtype", None)
    return dtype is None or dtype == object or not getattr(value, "shape", ()) and dtype in ("float64", "int64", "bool")


def as_object(value):
    """An array without axes that holds the symbol."""
    held = sys.modules["numpy"].empty(1, dtype=object)
    held[0] = value
    return held.reshape(())


def as_array(value, dtype=None, copy=None):
    """In an array it is a number of C's. (`np.prod(x.shape)` is asked for its factors: numpy_products.py.)"""
    return sys.modules["numpy"].array(value_of(value.node), dtype=dtype) if dtype != object else as_object(value)


def number_class(torchs):
    members = {name: member for name, member in vars(Number).items() if name not in ("__dict__", "__weakref__")}
    members["__array__"] = as_array
    if torchs is not torch.SymBool:
        members.update((name, decided(name, getattr(torchs, name))) for name in COMPARISONS)
    return complete(type(torchs.__name__, (torchs,), members))


def made_of(kind, value):
    """The program's `type(n)(value)`. The statistics module does so with fractions, after it asked whether `type(n)` is derived from int: no answer then."""
    if not isinstance(value, (*NUMBERS, int, float, str, type(None))):
        raise TypeError(f"the type of a symbolic number makes none of {type(value).__name__}")
    return kind() if value is None else kind(plain(value))


def made_as(torchs, own):
    """torch makes its numbers here, from C++ too. A truth value that the program gets (`x.any().item()`) is a bool: `is True` asks no method."""
    is_wide = core().is_wide

    def make(kind, node=None):
        if kind is own and not hasattr(node, "is_int"):
            return made_of(PLAIN[torchs], node)
        if kind is not torchs or not ours(node):
            return object.__new__(kind)
        read_now = not asked_by_framework() if torchs is torch.SymBool else torchs is torch.SymInt and is_wide(node)
        return value_of(node) if read_now else noted(object.__new__(own))

    return make


_MADE = {}   # thread -> weak references to the numbers that a recording has made there


def note_numbers():
    """From now on, of this thread, until left_over() is asked."""
    _MADE[threading.get_ident()] = []


def have_been_made():
    return bool(_MADE.get(threading.get_ident()))


def noted(number):
    made = _MADE.get(threading.get_ident())
    if made is not None:
        made.append(weakref.ref(number))
    return number


def left_over():
    """Those that somebody still holds."""
    made = _MADE.pop(threading.get_ident(), ())
    return [number for reference in made if (number := reference()) is not None]


@functools.cache
def make_known_to_numpy():
    """torch's NumPy, which only graphs of Dynamo's call, looks the type of a number up in a table and not the class it derives from; and while it makes
    tensors of Python's numbers another default dtype is set, which a recording takes for the program's doing."""
    from torch._numpy import _dtypes_impl as types, _util
    dtype_of, coerced = types._dtype_for_scalar, _util._coerce_to_tensor
    types._dtype_for_scalar = lambda kind: dtype_of(kind.__base__ if kind.__base__ in PLAIN else kind)

    @functools.wraps(coerced)
    def coerce(given, *args, **kwargs):
        if core().recording() and not isinstance(given, torch.Tensor):
            decided = decided_by_default(given)
            given = torch.as_tensor(given, dtype=types.get_default_dtype_for(decided)) if decided else _util._try_convert_to_tensor(given)
        return coerced(given, *args, **kwargs)

    _util._coerce_to_tensor = coerce


def decided_by_default(value, inside=False):
    """Of numbers without a width of their own, alone or in lists: which of torch's defaults says how wide a tensor of them is. None: no default does."""
    if isinstance(value, (list, tuple)):
        found = {decided_by_default(part, True) for part in value} or {torch.float32}
        return next((kind for kind in (torch.complex64, torch.float32) if kind in found), None)
    if isinstance(value, (float, torch.SymFloat)):
        return torch.float32
    if isinstance(value, complex):
        return torch.complex64
    kind = getattr(getattr(value, "dtype", None), "kind", "") if inside else ""   # of NumPy's numbers torch keeps the width only where they stand alone
    return {"f": torch.float32, "c": torch.complex64}.get(kind)


@functools.cache
def install():
    """Once, before the first recording."""
    dispatch.complete_sym_node()
    for torchs in PLAIN:
        torchs.__new__ = made_as(torchs, number_class(torchs))
