"""Functions of Python whose results come from their arguments alone, as far as their code says: arithmetic on sizes, mostly. Such a one may be run where a cache would
have answered (`cached_calls.py`). What is not understood is not pure.
"""

import builtins
import dis
import functools
import inspect
import math
import operator
import types

from .homes import of_package, source_of
from .names import inner_code
from .objects import is_a
from .while_recording import stood_for

KIND = getattr(functools, "_lru_cache_wrapper", None)
BUILTINS = frozenset(getattr(builtins, name) for name in """abs all any bool dict divmod enumerate filter float frozenset int isinstance issubclass iter len list map max
                     min next pow range reversed round set slice sorted str sum tuple zip""".split())
MODULES = math, operator
C_OF = "math", "operator", "_operator", "_functools"
# Of lists, dicts, sets and texts, which a function that stores no attributes can only have made itself, or been given as they are.
METHODS = frozenset("""add append appendleft count copy difference endswith extend find format get index insert intersection isidentifier issubset issuperset items join keys
                    lower pop remove replace reverse rstrip setdefault sort split startswith strip union update upper values bit_length is_integer""".split())
WRITES = frozenset("STORE_GLOBAL DELETE_GLOBAL STORE_ATTR DELETE_ATTR IMPORT_NAME IMPORT_FROM IMPORT_STAR LOAD_BUILD_CLASS LOAD_NAME LOAD_CLASSDEREF "
                   "YIELD_VALUE ASYNC_GEN_WRAP SEND GET_AWAITABLE".split())
ENDLESS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
CONSTANTS = (int, float, str, bytes, bool, complex, type(None))


class Globals:
    """What a pure function's code names, which must stay what it was."""

    def __init__(self):
        self._found = []

    def add(self, space, name, value):
        self._found.append((space, name, value))

    def same(self):
        return all(stood_for(space.get(name)) is value for space, name, value in self._found)


@functools.lru_cache(maxsize=1024)
def globals_of_pure(function):
    """Globals, of a pure function; else None. A function by its identity."""
    found, met = Globals(), set()
    return found if is_a(function, types.FunctionType) and is_pure(function, found, met) else None


def is_pure(function, found, met):
    if id(function) in met:
        return True   # is being looked at
    met.add(id(function))
    constants = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    if function.__closure__ or not all(map(is_constant, constants)):
        return False
    return all(names_pure(code, function, found, met) for code in with_comprehensions(function.__code__))


def with_comprehensions(code):
    return [code, *(item for inner in inner_code(code) for item in with_comprehensions(inner))]


def names_pure(code, function, found, met):
    generates = code is not function.__code__ and code.co_name == "<genexpr>"   # ends with the function
    if code.co_flags & ENDLESS or code.co_flags & inspect.CO_GENERATOR and not generates:
        return False
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    if any(map(functools.partial(is_while, steps), steps)):
        return False
    for step in steps:
        if step.opname in WRITES and not (generates and step.opname == "YIELD_VALUE"):
            return False
        if step.opname == "LOAD_METHOD" and step.argval not in METHODS and not hasattr(math, step.argval):
            return False
        if step.opname == "LOAD_GLOBAL" and not is_pure_global(step.argval, function, found, met):
            return False
    return True


def is_while(steps, step):
    """A jump back to anything but the next item: each round may ask a relation of a size, where one value to compare is cheaper."""
    if "JUMP_BACKWARD" not in step.opname:
        return False
    target = next((each for each in steps if each.offset >= step.argval), step)
    return target.opname != "FOR_ITER"


def is_pure_global(name, function, found, met):
    space = function.__globals__
    value = stood_for(space.get(name))   # while a recording runs, ours stands for some builtins
    if value is not None:
        found.add(space, name, value)
    elif name not in space or space[name] is not None:
        value = vars(builtins).get(name)
    if is_a(value, types.FunctionType):
        return is_pure(value, found, met)
    if type(value) is KIND:   # one that asks itself for smaller numbers wants its cache
        return is_a(value.__wrapped__, types.FunctionType) and id(value.__wrapped__) not in met and is_pure(value.__wrapped__, found, met)
    if is_a(value, types.BuiltinFunctionType):
        return value in BUILTINS or value.__module__ in C_OF
    if is_a(value, type):
        return value in BUILTINS or issubclass(value, BaseException) and value.__init__ in WITHOUT_OWN
    # What a program's own function reads may have been another when its cache was asked.
    return value in MODULES if is_a(value, types.ModuleType) else is_constant(value) and of_package(source_of(function))


WITHOUT_OWN = {kind.__init__ for kind in vars(builtins).values() if is_a(kind, type) and issubclass(kind, BaseException)}


def is_constant(value):
    return type(value) in CONSTANTS or type(value) in (tuple, frozenset) and all(map(is_constant, value))
