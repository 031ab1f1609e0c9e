"""What torch's analysis of value ranges proves of a relation. Algebra only: no tracing, and none of its modules is needed."""

import sympy
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from .spec import LARGEST


def interval(low, high):
    return ValueRanges(low, int_oo if high >= LARGEST else high)


def proven(relation, ranges):
    """Whether intervals alone show that it always holds. Both sides are brought to one, so that what cancels does."""
    if relation.is_Relational:
        relation = relation.func(sympy.expand(relation.lhs - relation.rhs), 0)
    if relation in (sympy.true, sympy.false):
        return relation is sympy.true
    try:
        found = bound_sympy(relation, {symbol: interval(*ends) for symbol, ends in ranges.items()})
    except Exception:   # an expression that torch's analysis does not know proves nothing
        return False
    return found.is_singleton() and bool(found.lower)
