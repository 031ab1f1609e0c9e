"""What Python's numbers do and Dynamo's model of them does otherwise: the answer would be wrong with no guard and no word.

Dynamo has a symbolic number for each size and number that may vary, and most of what a program does with it becomes a node of the graph.
Where its rules are not Python's, these are: the same symbol again, a relation asked of the host (a guard), or a graph break, behind
which the program has a plain number.

  n.real, n.imag, n.numerator, n.denominator   the number itself, 0 or 1; Dynamo has an attribute that equals nothing
  divmod(a, b)                                 quotient and rest; Dynamo says that there is no such operation
  round(n, -1)                                 a graph break; Dynamo has n itself
  min(a, b), max(a, b)                         of an integer and a float one of both, with its own type; Dynamo has a float
  x.is_integer()                               a relation; Dynamo pins the number
  t is True                                    a relation; Dynamo's truth value is no object's equal
  x in [x], 3 in x.shape                       Python compares identities before it compares elements, and symbols are elements
  n == Color.RGB, n in [True]                  a member of an IntEnum is the number that it is; Dynamo has an object that equals no number
"""

import functools
import math
import numbers
import operator

import torch
from torch._dynamo import exc as dynamo_exc
from torch._dynamo import symbolic_convert
from torch._dynamo.variables import builtin, lists
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.tensor import SymNodeVariable

from ..recording.symbols import of_its_base

NUMBERS = (int, float)


def install(current_session):
    def ours():
        return current_session() is not None

    builtin.BuiltinVariable.call_function = rewritten(builtin.BuiltinVariable.call_function, ours)
    SymNodeVariable.var_getattr = with_properties(SymNodeVariable.var_getattr, ours)
    SymNodeVariable.call_method = with_methods(SymNodeVariable.call_method, ours)
    SymNodeVariable.richcompare_impl = of_elements(SymNodeVariable.richcompare_impl, ours)
    lists.iter_contains = with_identity(lists.iter_contains, ours)
    for word, function in (("is", operator.is_), ("is not", operator.is_not), ("==", operator.eq), ("!=", operator.ne)):   # made before, of the function as it was
        symbolic_convert.compare_op_handlers[word] = builtin.BuiltinVariable(function).call_function


def possible():
    return hasattr(lists, "iter_contains") and hasattr(symbolic_convert, "compare_op_handlers")


def leave(what):
    dynamo_exc.unimplemented(gb_type="escapement: an operation on a symbolic number", context=what, hints=[],
                             explanation="the graph has nothing that does what Python does")


def is_symbol(variable):
    return isinstance(variable, SymNodeVariable)


# --- attributes

def with_properties(var_getattr, ours):
    @functools.wraps(var_getattr)
    def getattr_of(number, tx, name):
        kind = number.python_type()
        if not ours() or kind not in NUMBERS or name not in ("real", "imag", "numerator", "denominator") or not hasattr(kind, name):
            return var_getattr(number, tx, name)
        return number if name in ("real", "numerator") else ConstantVariable.create(kind(name == "denominator"))

    return getattr_of


# --- functions

def with_methods(call_method, ours):
    @functools.wraps(call_method)
    def call(number, tx, name, args, kwargs):
        asks = name == "is_integer" and not args and not kwargs and ours() and kind_of(number) is float
        if not asks:
            return call_method(number, tx, name, args, kwargs)
        whole = VariableTracker.build(tx, math.floor).call_function(tx, [number], {})
        return ConstantVariable.create(decided(tx, applied(tx, operator.eq, number, whole)))

    return call


def rewritten(call_function, ours):
    @functools.wraps(call_function)
    def call(function, tx, args, kwargs):
        rule = RULES.get(function.fn) if type(function.fn).__name__ == "builtin_function_or_method" else None
        if rule is None or not ours():
            return call_function(function, tx, args, kwargs)
        args = [arg.realize() for arg in args]
        found = rule(tx, *args, **kwargs) if any(map(is_symbol, args)) else None
        return call_function(function, tx, args, kwargs) if found is None else found

    return call


def applied(tx, function, *args):
    return builtin.BuiltinVariable(function).call_function(tx, list(args), {})


def quotient_and_rest(tx, a, b):
    if not all(kind_of(variable) is int for variable in (a, b)):
        return leave("divmod of floats") if all(kind_of(variable) for variable in (a, b)) else None
    from torch._dynamo.variables.lists import TupleVariable

    return TupleVariable([applied(tx, operator.floordiv, a, b), applied(tx, operator.mod, a, b)])


def rounded(tx, number, digits=None):
    if kind_of(number) is int and digits is not None and not digits.is_constant_none():
        return number if digits.is_python_constant() and digits.as_python_constant() >= 0 else leave("round to tens")
    return None


def extreme(compare):
    """The first of those that nothing is beyond. Of numbers of one type torch has an expression; here the types differ."""
    def rule(tx, *args, **kwargs):
        kinds = {kind_of(variable) for variable in args}
        if len(args) < 2 or kwargs or not kinds == {int, float}:
            return None
        return functools.reduce(lambda best, one: one if decided(tx, applied(tx, compare, one, best)) else best, args)
    return rule


def kind_of(variable):
    """int, float, or None for what is no number of these."""
    if is_symbol(variable):
        return variable.python_type() if variable.python_type() in NUMBERS else None
    value = variable.as_python_constant() if variable.is_python_constant() else None
    return type(value) if type(value) in NUMBERS else None


def decided(tx, truth):
    if truth.is_python_constant():
        return truth.as_python_constant()
    number = truth.sym_num if is_symbol(truth) else None
    if isinstance(number, torch.SymBool) and not number.node.has_hint():
        leave("a comparison of numbers that come from data")
    return bool(truth.evaluate_expr(tx.output))


def same_object(tx, a, b):
    """There are two truth values; of other numbers a program cannot tell."""
    truths = [variable for variable in (a, b) if is_symbol(variable) and variable.python_type() is bool]
    constants = [variable for variable in (a, b) if variable.is_python_constant() and type(variable.as_python_constant()) is bool]
    if not truths or len(truths) + len(constants) < 2:
        return None
    return ConstantVariable.create(decided(tx, applied(tx, operator.eq, a, b)))


def other_object(tx, a, b):
    same = same_object(tx, a, b)
    return None if same is None else ConstantVariable.create(not same.as_python_constant())




# --- comparisons

def with_numbers_of_a_class(compare):
    def rule(tx, a, b):
        first, second = as_number(a), as_number(b)
        return None if first is a and second is b else applied(tx, compare, first, second)
    return rule


def of_elements(compare, ours):
    """Of tuples, say."""
    @functools.wraps(compare)
    def answer(number, tx, other, op):
        return compare(number, tx, as_number(other) if ours() else other, op)

    return answer


def as_number(variable):
    """A member of an IntEnum is equal to the number that it is. What a graph cannot compare with is compared behind a graph break."""
    variable = variable.realize()
    if is_symbol(variable):
        return variable
    value = variable.as_python_constant() if variable.is_python_constant() else getattr(variable, "value", None)
    if type(value) is complex and not value.imag:
        return ConstantVariable.create(value.real)
    number = of_its_base(value)
    if number is not value:
        return ConstantVariable.create(number)
    if isinstance(value, numbers.Number) and type(value) not in (int, float, bool):
        leave(f"a comparison with a {type(value).__name__}")
    return variable


RULES = {operator.is_: same_object, operator.is_not: other_object, divmod: quotient_and_rest, round: rounded, min: extreme(operator.lt), max: extreme(operator.gt),
         operator.eq: with_numbers_of_a_class(operator.eq), operator.ne: with_numbers_of_a_class(operator.ne)}


def in_numbers(variable):
    """Truth values, too."""
    variable = as_number(variable)
    truth = variable.as_python_constant() if variable.is_python_constant() else None
    return ConstantVariable.create(int(truth)) if type(truth) is bool else variable


# --- containers

def with_identity(contains, ours):
    @functools.wraps(contains)
    def found(items, search, tx, check_tensor_identity=False):
        items = [item.realize() for item in items] if ours() else items
        if ours() and (is_symbol(search) or any(map(is_symbol, items))):
            search, items = in_numbers(search), [in_numbers(item) for item in items]
        if ours() and search.is_tensor() and not check_tensor_identity and items:
            return ConstantVariable.create(True) if items[0] is search else leave("whether a tensor is in a list")
        if ours() and kind_of(search) and not is_symbol(search) and any(map(is_symbol, items)):
            return ConstantVariable.create(any(kind_of(item) and decided(tx, applied(tx, operator.eq, item, search)) for item in items))
        return contains(items, search, tx, check_tensor_identity)

    return found
