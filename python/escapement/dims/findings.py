"""What the relations of one traced program mean for the dims that were declared. Pure algebra: no torch, no tracing.

Named dims are variables. A symbol of a declared size is its expression of these variables; equalities then give
expressions to further symbols (`joined`). A relation that holds for every value of the declared ranges is nothing; of
the others:

  broken     between named dims only, and asked by the program's own code, or an equation that pins one or ties two
  narrowed   an inequality or divisibility that only an operator asked for, or a branch on a named dim against another one
"""

import itertools
import typing

import sympy

from ..limits import TRIED_POINTS
from .spec import Linear, declared_text



class Size(typing.NamedTuple):
    """One dim (or integer) of the call as the traced program sees it."""

    place: str           # x.size(0)
    key: tuple           # argument, path, axis
    dim: object          # what was declared, or None
    symbol: object       # the sympy symbol it was traced as, or None for a constant
    value: int
    why: str             # why it is a constant, where it is one
    pinned: bool = False    # by the program, not by how it was to start


class Relation(typing.NamedTuple):
    """Something that the traced program relies on."""

    expr: object
    text: str            # in words of the inputs
    where: str
    host: bool           # asked by the program's own code, not by an operator

    def __str__(self):
        return f"{self.text} at {self.where}"


class Findings:
    def __init__(self, sizes, relations, within):
        """`within(expr, ranges)` says whether reasoning about intervals proves a relation."""
        self.sizes, self.relations, self.within = sizes, relations, within
        self.variables = {dim.name: dim for size in sizes if isinstance(size.dim, Linear) for dim, _ in size.dim.terms}
        self.ranges = {variable(name): (dim.low, dim.high) for name, dim in self.variables.items()}
        self.known, self.joined = {}, {}
        for size in sizes:
            if isinstance(size.dim, Linear) and size.symbol is not None:
                self.known.setdefault(size.symbol, expression(size.dim))
        self.join(relations)
        self.narrowed, self.broken = [], []
        for relation in relations:
            self.judge(relation)

    def join(self, relations):
        """Equalities that say what a symbol is, until none says anything new."""
        waiting = [relation for relation in relations if isinstance(relation.expr, sympy.Eq)]
        while True:
            later = [relation for relation in waiting if not self.joins(relation)]
            if len(later) == len(waiting):
                return
            waiting = later

    def joins(self, relation):
        found = relation.expr.xreplace(self.known)
        unknown = found.free_symbols - set(self.ranges)
        if len(unknown) != 1 or not found.free_symbols & set(self.ranges):
            return False
        (symbol,) = unknown
        difference = sympy.expand(found.lhs - found.rhs)
        factor = difference.coeff(symbol, 1)
        rest = difference - factor * symbol
        if factor not in (1, -1) or symbol in rest.free_symbols:
            return False
        self.known[symbol], self.joined[symbol] = sympy.expand(-rest / factor), relation
        return True

    def judge(self, relation):
        found = relation.expr.xreplace(self.known)
        named = found.free_symbols & set(self.ranges)
        if not named or self.always(found):
            return
        only_named = named == found.free_symbols   # else a dim without a contract gives way, whatever the named ones are
        if only_named and (relation.host or equation(found)):
            self.broken.append((relation, found))
        elif only_named or relation.host:
            self.narrowed.append((relation, found))

    def always(self, relation):
        """Whether it holds for all values in the declared ranges."""
        ranges = {symbol: self.ranges[symbol] for symbol in relation.free_symbols if symbol in self.ranges}
        if self.within(relation, ranges):
            return True
        count = 1
        for low, high in ranges.values():
            count *= high - low + 1
        if len(ranges) != len(relation.free_symbols) or count > TRIED_POINTS:
            return False
        values = itertools.product(*(range(low, high + 1) for low, high in ranges.values()))
        return all(relation.xreplace(dict(zip(ranges, map(sympy.Integer, point)))) == True for point in values)  # noqa: E712

    def what_is(self, symbol):
        """The expression of named dims that this symbol equals, or None."""
        found = self.known.get(symbol)
        return None if found is None else linear(found, self.variables)

    def complaint(self, relation, found):
        """What to tell the user whose contract the relation breaks."""
        names = sorted(str(symbol) for symbol in found.free_symbols & set(self.ranges))
        about = ", ".join(f"{size.place} ({size.dim!r})" for size in self.sizes if isinstance(size.dim, Linear)
                          and any(dim.name in names for dim, _ in size.dim.terms))
        ranges = ", ".join(declared_text(self.variables[name]) for name in names)
        if not equation(found):
            only_named = set(names) == set(map(str, found.free_symbols))
            fault = f"the program depends on {spelled(found) if only_named else relation.text}"
            remedy = "declare a range in which that never changes, or Dim.AUTO to allow a version for each case"
        elif len(names) > 1:
            fault = f"in the program {' and '.join(names)} are tied: {spelled(found)}"
            remedy = "write one in terms of the other, or use one Dim for both"
        else:
            fault = f"the program pins it: {spelled(found)}"
            remedy = "declare that integer, Dim.STATIC, or Dim.AUTO"
        return f"{about} must stay dynamic for all of {ranges}, but {fault}. It relies on {relation}. Remedy: {remedy}"


def variable(name):
    """No symbol of a trace equals it: those are positive."""
    return sympy.Symbol(name, integer=True)


def expression(dim):
    return sympy.Add(*(factor * variable(term.name) for term, factor in dim.terms), dim.constant)


def linear(found, variables):
    terms = {variables[str(symbol)]: found.coeff(symbol, 1) for symbol in found.free_symbols if str(symbol) in variables}
    rest = sympy.expand(found - sum(factor * variable(dim.name) for dim, factor in terms.items()))
    numbers = [rest, *terms.values()]
    if len(terms) != len(found.free_symbols) or not all(number.is_Integer for number in numbers):
        return None
    made = Linear({dim: int(factor) for dim, factor in terms.items()}, int(rest))
    return made.terms[0][0] if not made.constant and len(made.terms) == 1 and made.terms[0][1] == 1 else made


def equation(found):
    """An equality that is linear in what it speaks of, so that it leaves one value for one of them."""
    if not isinstance(found, sympy.Eq):
        return False
    difference, symbols = sympy.expand(found.lhs - found.rhs), sorted(found.free_symbols, key=str)
    return difference.is_polynomial(*symbols) and sympy.Poly(difference, *symbols).total_degree() <= 1


def spelled(found):
    return f"{found.lhs} {found.rel_op} {found.rhs}" if found.is_Relational else str(found)
