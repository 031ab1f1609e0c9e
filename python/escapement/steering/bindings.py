"""What each input of a captured graph is: the list the core's Region takes as `inputs`.

Everything is read from the fake values on the placeholders, never from their names (after two dims were unified the placeholder
called s72 carries the symbol s43) and never by asking a SymInt a question (that would pin it, and nobody would be told).

A size expression the core cannot evaluate becomes a symbol of its own: the relation is lost, the answer stays right.
"""

import torch

from .dynamo import is_wrapper_subclass

BINARY = {"Add": "add", "Mul": "mul", "FloorDiv": "floordiv", "CleanDiv": "floordiv", "Mod": "mod", "PythonMod": "mod",
          "Min": "min", "Max": "max"}
MAX_POWER = 8


class Inexpressible(Exception):
    """An expression outside the core's algebra."""


class Symbols:
    """Numbers for sympy symbols, and for whole expressions that stand for themselves."""

    def __init__(self, guards=()):
        self.numbers = {}
        self.bound = set()
        self.values = dict(filter(None, map(value_of, guards)))

    def leaf(self, expr):
        """A symbol that Dynamo guards to be a number, and yet keeps as a symbol (a size of 1, where sizes may be 0 or 1), has the range of that number:
        what was traced relies on it."""
        value = self.values.get(expr)
        return ("sym", self.number(expr)) if value is None else ("sym", self.number(expr), value, value)

    def number(self, expr):
        return self.numbers.setdefault(expr, len(self.numbers))

    def bind(self, expr):
        self.bound.add(expr)
        return self.number(expr)


def bindings(nodes, key):
    """One entry per placeholder. `key` is the meta entry with the fake value: "example_value" (Dynamo) or "val" (AOTAutograd)."""
    values = [node.meta.get(key) for node in nodes]
    symbols = Symbols(guards_of(values))
    for value in values:  # integers first: where one carries a symbol, it binds it
        for expr in exprs_of(value):
            if expr.is_Symbol:
                symbols.bind(expr)
    first = set()
    return [binding(value, symbols, first) for value in values]


def binding(value, symbols, first):
    if isinstance(value, torch.SymInt):
        return int_binding(value.node.expr, symbols, first)
    if is_plain_tensor(value):
        return ("tensor", [dim(expr_of(size), symbols) for size in value.shape])
    return ("other",)


def int_binding(expr, symbols, first):
    """The first integer that is a symbol binds it; every other integer is tested against its expression."""
    expr = expr if expr.is_Symbol else expressible(expr, symbols)
    if not isinstance(expr, (int, tuple)) and expr not in first:
        first.add(expr)
        return ("int", *symbols.leaf(expr)[1:])
    return ("int_expr", expr if isinstance(expr, (int, tuple)) else symbols.leaf(expr))


def expressible(expr, symbols):
    """The expression as nested tuples, or the expression itself where it has to be a symbol of its own."""
    try:
        return term(expr, symbols)
    except Inexpressible:
        return expr


def dim(expr, symbols):
    if isinstance(expr, int):
        return expr
    found = expressible(expr, symbols)
    return found if isinstance(found, (int, tuple)) else ("sym", symbols.bind(expr))


def term(expr, symbols):
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        if expr not in symbols.bound:  # no input is exactly this symbol, so the core could not know its value
            raise Inexpressible(expr)
        return symbols.leaf(expr)
    if type(expr).__name__ == "Pow":
        return power(expr, symbols)
    name = BINARY.get(type(expr).__name__)
    if name is None:
        raise Inexpressible(expr)
    return fold(name, [term(arg, symbols) for arg in expr.args])


def power(expr, symbols):
    base, exponent = expr.args
    if not (exponent.is_Integer and 0 < int(exponent) <= MAX_POWER):
        raise Inexpressible(expr)
    return fold("mul", [term(base, symbols)] * int(exponent))


def fold(name, terms):
    if name == "mul" and terms[0] == -1 and len(terms) > 1:
        return ("neg", fold(name, terms[1:]))
    found = terms[0]
    for following in terms[1:]:
        found = (name, found, following)
    return found


def guards_of(values):
    """Of the environment that the sizes belong to."""
    for value in values:
        sizes = [value] if isinstance(value, torch.SymInt) else value.shape if is_plain_tensor(value) else ()
        for size in sizes:
            if isinstance(size, torch.SymInt):
                return [guard.expr for guard in size.node.shape_env.guards]
    return []


def value_of(guard):
    """(symbol, number) of a guard that says just this, else None."""
    if type(guard).__name__ != "Equality":
        return None
    sides = sorted(guard.args, key=lambda side: not side.is_Symbol)
    return (sides[0], int(sides[1])) if sides[0].is_Symbol and sides[1].is_Integer else None


def expr_of(size):
    return size.node.expr if isinstance(size, torch.SymInt) else size


def exprs_of(value):
    """The expressions that can bind a symbol: an integer's own, or a tensor's dims."""
    if isinstance(value, torch.SymInt):
        return [value.node.expr]
    if is_plain_tensor(value):
        return [size.node.expr for size in value.shape if isinstance(size, torch.SymInt)]
    return []


def is_plain_tensor(value):
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.is_nested:
        return False
    return not is_wrapper_subclass(value)
