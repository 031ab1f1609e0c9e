"""What the program's own classes say of their objects and Dynamo takes otherwise, with any backend:

- Objects as keys. Dynamo hashes them by their `__hash__`, but takes for equal only what is one object. Here their `__eq__` is asked, as Python asks it.
- `__getattribute__`. An attribute that it hands on changed is read as it stands in the object, under a name by which the compiled code, and guards, find
  what was made of it. Here such a read is a graph break.
- `__del__`. An object that the frame makes is made late or never, and so ends late or never. Here such a frame runs eagerly.
"""

import functools
import inspect
import operator
import types

from torch._dynamo import exc as dynamo_exc
from torch._dynamo import symbolic_convert
from torch._dynamo.variables import hashable, lazy
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import SymNodeVariable
from torch._dynamo.variables.user_defined import UserDefinedClassVariable, UserDefinedObjectVariable


def install(current_session):
    hashable.HashableTracker.__eq__ = asking_them(hashable.HashableTracker.__eq__, current_session, lambda key: key.vt)
    UserDefinedObjectVariable.is_python_equal = asking_them(UserDefinedObjectVariable.is_python_equal, current_session, lambda value: value)   # in a tuple
    UserDefinedObjectVariable.generic_getattr = as_handed_on(UserDefinedObjectVariable.generic_getattr, current_session)
    UserDefinedClassVariable.call_function = without_an_end(UserDefinedClassVariable.call_function, current_session)


def possible():
    return hasattr(hashable, "HashableTracker") and "generic_getattr" in vars(UserDefinedObjectVariable)


def unimplemented(what, why, **more):
    dynamo_exc.unimplemented(gb_type=f"escapement: {what}", context="", explanation=why, hints=[], **more)


def of_the_program(cls, name):
    """The method of that name, if it is Python code that the class or one of its bases has."""
    found = inspect.getattr_static(cls, name, None)
    return found if isinstance(found, types.FunctionType) else None


# --- objects as keys

def asking_them(eq, current_session, value_of):
    @functools.wraps(eq)
    def equal(one, other):
        if current_session() is None or not isinstance(other, (hashable.HashableTracker, VariableTracker)) or one is other:
            return eq(one, other)
        a, b = realized(value_of(one)), realized(value_of(other))
        if a is b or not (says_what_is_equal(a) or says_what_is_equal(b)):
            return eq(one, other)
        return is_one(a, b) or truth(compared(a, b))

    return equal


def realized(variable):
    return variable.realize() if isinstance(variable, lazy.LazyVariableTracker) else variable


def says_what_is_equal(variable):
    """By code of the program's, and not by what a dataclass compares field by field, which Dynamo does."""
    if not isinstance(variable, UserDefinedObjectVariable) or variable.is_python_constant():
        return False
    method = of_the_program(type(variable.value), "__eq__")
    if method is None:
        return False
    by_fields = type(variable) is not UserDefinedObjectVariable and "is_python_equal" in vars(type(variable)) and is_generated(method)
    return not by_fields


def is_generated(method):
    return method.__code__.co_filename == "<string>"


def is_one(a, b):
    return isinstance(a, UserDefinedObjectVariable) and isinstance(b, UserDefinedObjectVariable) and a.value is b.value


def compared(a, b):
    tx = symbolic_convert.InstructionTranslator.current_tx()
    return VariableTracker.build(tx, operator.eq).call_function(tx, [a, b], {})


def truth(answer):
    if answer.is_python_constant():
        return bool(answer.as_python_constant())
    if isinstance(answer, SymNodeVariable):
        return bool(answer.evaluate_expr())
    unimplemented("keys whose equality is no truth value", "which of them is found in the container is known when the program runs")


# --- __getattribute__

def as_handed_on(generic_getattr, current_session):
    @functools.wraps(generic_getattr)
    def read(holder, tx, name):
        if current_session() is not None and holder.source is not None and is_changed_on_its_way(holder, name):
            unimplemented("an attribute that the object's own __getattribute__ changes", f"`{name}` is another value for whoever reads it by name")
        return generic_getattr(holder, tx, name)

    return read


def is_changed_on_its_way(holder, name):
    hook = of_the_program(type(holder.value), "__getattribute__")
    held = getattr(holder.value, "__dict__", {}) if hook else {}
    if name not in held:
        return False
    try:
        return getattr(holder.value, name) is not held[name]
    except Exception:   # the program's own code
        return True


# --- __del__

def without_an_end(call_function, current_session):
    @functools.wraps(call_function)
    def made(cls, tx, args, kwargs):
        if current_session() is not None and of_the_program(cls.value, "__del__"):
            unimplemented("an object with a __del__", f"when an object of {cls.value.__name__} ends can be seen", skip_frame=True)
        return call_function(cls, tx, args, kwargs)

    return made
