"""Python's arithmetic for symbolic numbers: all that int, float and bool can do and torch's classes lack or do otherwise.

A method without an answer in symbols reads the numbers, which the core notes as an exact read, and is Python's own on them. Errors are
Python's own too: whether a divisor is zero, a power complex or a rounding infinite is a relation asked of the core, so a call in another
case is another recording.
"""

import functools
import math
import operator

import torch

NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
PLAIN = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
REAL = (int, float, *NUMBERS)
BITS = {"lshift": operator.lshift, "rshift": operator.rshift, "and": operator.and_, "or": operator.or_, "xor": operator.xor}
SUMS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
DIVISIONS = {"truediv": operator.truediv, "floordiv": operator.floordiv, "mod": operator.mod, "divmod": divmod}
ROUNDINGS = {"__floor__": math.floor, "__ceil__": math.ceil, "__trunc__": math.trunc, "__int__": int}
COMPARISONS = ("__lt__", "__le__", "__gt__", "__ge__")
WIDEST_POWER = 16   # of a size: the largest exponent whose result is surely finite
MANTISSA = 2 ** 53     # up to there an integer is a float
WIDEST_SHIFT, WIDEST_MASK = 32, 2 ** 32
# Not Python's arithmetic: how objects are made, and what symbols.py does.
APART = ("__class__", "__new__", "__getattribute__", "__getnewargs__", "__getformat__", "__reduce__", "__reduce_ex__", "__sizeof__",
         "__format__", "__str__", "__repr__", "__hash__", "__eq__", "__ne__", "__doc__", "__init__", "__init_subclass__", "__subclasshook__",
         "from_bytes", "fromhex")


def ours(node):
    """Nested tensors use C++ nodes too, and theirs have no value."""
    return type(node) is torch._C._SymNode and not (node.is_int() and node.is_nested_int())


def value_of(node):
    read = node.guard_int if node.is_int() else node.guard_bool if node.is_bool() else node.guard_float
    return read(__file__, 0)


def plain(value):
    return value_of(value.node) if isinstance(value, NUMBERS) and ours(value.node) else value


def whole(number):
    return isinstance(number, (int, torch.SymInt, torch.SymBool))


def is_float_exactly(number):
    return isinstance(number, (bool, torch.SymBool)) or -MANTISSA <= number <= MANTISSA


def swapped(function):
    return lambda number, other: function(other, number)


# --- methods. Each is given torch's own method, where there is one.

def exact(function):
    """Python's function, of the values."""
    def bind(torchs):
        def method(number, *others):
            if not all(isinstance(other, (*REAL, complex, str, type(None))) for other in others):
                return NotImplemented
            return function(plain(number), *map(plain, others))
        return method
    return bind


def where_it_fits(method, function):
    """Torch's own, which has 64 bits; where they are not enough Python's, of the values. (A TypeError is torch's word for an operand that is wider.)"""
    def fitting(*numbers):
        try:
            return method(*numbers)
        except (RuntimeError, TypeError):
            return function(*map(plain, numbers))
    return fitting


def with_complex(function):
    """Torch's own, which knows nothing of complex numbers."""
    def bind(torchs):
        fitting = where_it_fits(torchs, function)
        return lambda number, other: function(plain(number), other) if isinstance(other, complex) else fitting(number, other)
    return bind


def fitting(function):
    return lambda torchs: where_it_fits(torchs, function)


def bits_of_bool(function):
    """Of two truth values torch's own, of anything else Python's."""
    def bind(torchs):
        def method(number, other):
            return torchs(number, other) if isinstance(other, (bool, torch.SymBool)) else exact(function)(None)(number, other)
        return method
    return bind


def bits_of_int(name, function):
    """A shift by, or a mask of, so many bits is a power of two."""
    def bind(torchs):
        read = exact(function)(torchs)

        def method(number, other):
            if type(other) is not int or not 0 <= other < WIDEST_MASK or not isinstance(number, torch.SymInt):
                return read(number, other)
            if name == "and" and other & other + 1 == 0:
                return number % (other + 1)
            if name in ("lshift", "rshift") and other < WIDEST_SHIFT:
                return number * 2 ** other if name == "lshift" else number // 2 ** other
            return read(number, other)
        return method
    return bind


def division(function, reflected):
    """By a divisor that is not zero torch's own, but what an integer division of floats leaves is no expression."""
    def bind(torchs):
        torchs = torchs and where_it_fits(torchs, swapped(function) if reflected else function)

        def method(number, other):
            if not isinstance(other, (*REAL, complex)):
                return NotImplemented
            dividend, divisor = (other, number) if reflected else (number, other)
            if isinstance(other, complex) or divisor == 0 or not (function is operator.truediv or whole(number) and whole(other)):
                return function(plain(dividend), plain(divisor))
            if function is operator.truediv and whole(number) and whole(other) and not (is_float_exactly(number) and is_float_exactly(other)):
                return function(plain(dividend), plain(divisor))   # Python rounds once
            return (dividend // divisor, dividend % divisor) if function is divmod else torchs(number, other)
        return method
    return bind


def power(reflected):
    def bind(torchs):
        def method(number, other, *modulus):
            if not isinstance(other, (*REAL, complex)):
                return NotImplemented
            base, exponent = (other, number) if reflected else (number, other)
            if modulus or isinstance(other, complex) or not regular_power(base, exponent):
                return pow(plain(base), plain(exponent), *map(plain, modulus))
            return natural_power(base, exponent) if whole(base) and whole(exponent) and exponent >= 0 else float_power(base, exponent)
        return method
    return bind


def regular_power(base, exponent):
    """Neither complex nor a division by zero."""
    if isinstance(exponent, (int, float)) and exponent >= 0:
        return bool(whole(exponent) or base >= 0)
    return bool(whole(exponent) and exponent >= 0 or base > 0 or base == 0 and exponent >= 0)


def natural_power(base, exponent):
    """The exponent is read; then this is a product."""
    return functools.reduce(operator.mul, [base] * plain(exponent), 1)


def float_power(base, exponent):
    base_float, exponent_float = torch.sym_float(base), torch.sym_float(exponent)
    result = base_float.__float_pow__(exponent_float) if isinstance(base, NUMBERS) else exponent_float.__rfloat_pow__(base_float)
    narrow = whole(base) and isinstance(exponent, (int, float)) and abs(exponent) <= WIDEST_POWER
    return result if narrow or -math.inf < result < math.inf else pow(plain(base), plain(exponent))


def rounding(function):
    """Torch's own where the result is an expression of sizes or a number of 64 bits. Infinity and NaN raise as in Python."""
    def bind(torchs):
        def method(number):
            try:
                return torchs(number)
            except RuntimeError:
                return function(plain(number))
        return method
    return bind


def is_whole(number):
    try:
        return number == math.floor(number)
    except (OverflowError, ValueError):   # infinity and NaN cannot be rounded
        return False


def rounded(number, digits=None):
    if digits is None:
        return number if whole(number) else nearest(number)
    return number if whole(number) and digits >= 0 else round(plain(number), plain(digits))


nearest = where_it_fits(lambda number: torch.SymInt(number.node.nearest()), round)


def always(answer):
    """Not torch's, whatever that is."""
    return lambda torchs: answer


# --- the table

def binary(name, make, function):
    return {f"__{name}__": make(function), f"__r{name}__": make(swapped(function))}


def methods_of(kind):
    """Name -> how it is bound."""
    found = {name: exact(getattr(PLAIN[kind], name)) for name in missing(kind)}
    for name, function in BITS.items():
        found.update(binary(name, bits_of_bool if kind is torch.SymBool and name in ("and", "or") else exact, function))
        if kind is torch.SymInt:
            found[f"__{name}__"] = bits_of_int(name, function)
            found.update({"__rand__": bits_of_int(name, function)} if name == "and" else {})
    for name, function in SUMS.items():
        found.update(binary(name, with_complex, function))
    for name, function in DIVISIONS.items():
        found.update({f"__{name}__": division(function, False), f"__r{name}__": division(function, True)})
    found.update(__pow__=power(False), __rpow__=power(True), __round__=always(rounded), __copy__=always(itself), __deepcopy__=always(itself))
    if kind is torch.SymInt:
        found["__invert__"] = always(lambda number: -number - 1)
        found.update(__neg__=fitting(operator.neg), __abs__=fitting(abs), __sym_max__=fitting(torch.sym_max), __sym_min__=fitting(torch.sym_min))
    if kind is torch.SymFloat:
        found.update({name: rounding(function) for name, function in ROUNDINGS.items()}, is_integer=always(is_whole))
    return found


def missing(kind):
    """Methods that Python's numbers have and torch's lack, or have as any object has them."""
    of_object = {name: getattr(object, name) for name in dir(object)}
    names = [name for name in dir(PLAIN[kind]) if name not in APART and callable(getattr(PLAIN[kind], name))]
    return [name for name in names if getattr(kind, name, None) is of_object.get(name) is not getattr(PLAIN[kind], name)]


def itself(number, memo=None):
    return number


PROPERTIES = {"real": lambda number: number, "imag": lambda number: 0 if whole(number) else 0.0,
              "numerator": lambda number: number, "denominator": lambda number: 1}


# --- how they get into our classes

def complete(kind):
    """Gives all this to our own class of such numbers."""
    torchs = kind.__base__
    for name, bind in methods_of(torchs).items():
        setattr(kind, name, bind(getattr(torchs, name, None)))
    for name, read in PROPERTIES.items():
        if hasattr(PLAIN[torchs], name):
            setattr(kind, name, property(read))
    return kind
