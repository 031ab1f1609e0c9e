"""Declared dims of a jitted function: what the recorder is told before a recording, and what a finished version is held to.

The spec and its check are those of escapement.compile (dims/spec.py, dims/contract.py), and so is the judgement (dims/findings.py,
dims/frames.py); only where the relations come from differs: here they are the guards of a version.

A named dim is one symbol of the recording, with its range as a guard, so calls that a version serves need no check in Python.
What the recorder cannot be told (a declared constant of an integer, an expression of names that no argument binds) is `loose`:
such functions are checked in Python at every call.
"""

import itertools
import re

import sympy
import torch
from torch.utils._sympy.functions import FloatPow, FloatTrueDiv, FloorDiv, FloorToInt, OpaqueUnaryFn_sqrt, PythonMod, RoundToInt, ToFloat

from ..dims import frames
from ..dims.contract import Call, Contract
from ..dims.findings import Findings, Relation, Size
from ..dims.intervals import proven
from ..dims.learned import kind_of
from ..dims.spec import LARGEST, Dim, Hint, Leaf, Linear, Rank, place_name
from ..errors import OptionError

SYMBOL = re.compile(r"\b[a-z]+\d+\b")


class RealLess(sympy.Function):
    """1 where the first is less, else 0."""
    nargs = 2
    is_integer = True


FUNCTIONS = {"floordiv": FloorDiv, "mod": PythonMod, "min": sympy.Min, "max": sympy.Max,
             "real": ToFloat, "real_add": sympy.Add, "real_mul": sympy.Mul, "real_div": FloatTrueDiv, "real_pow": FloatPow, "real_sqrt": OpaqueUnaryFn_sqrt,
             "real_min": sympy.Min, "real_max": sympy.Max, "real_floor": FloorToInt, "real_round": RoundToInt, "real_less": RealLess}
RELATIONS = {"==": sympy.Eq, "!=": sympy.Ne, "<": sympy.Lt, "<=": sympy.Le,
             "broadcasts": lambda a, b: sympy.Or(sympy.Eq(a, b), sympy.Eq(a, 1))}


class JitDims:
    def __init__(self, fn, spec, options):
        if options["compile"] == "background":
            raise OptionError("dims= needs compile='block': a version is held to what was declared before its first use")
        self.contract = Contract(fn.forward if isinstance(fn, torch.nn.Module) else fn, spec, options["strict"])
        self._numbers = {}    # name of a Dim -> number of its symbol in the core
        self._free = itertools.count(1_000_000)
        self._first, self._varied = {}, set()   # of Dim.STATIC_FIRST: place -> the size seen first; places where another was seen

    def check(self, args, kwargs):
        if self.contract.places:
            self.contract.check(args, kwargs)

    def said(self, names, leaves):
        """For each leaf what is declared: {axis: dim}; axis None for an integer."""
        return [self._said_of(name, leaf) for name, leaf in zip(names, leaves, strict=True)]

    def _said_of(self, name, leaf):
        declared = [entry for entry in self.contract.leaves if not isinstance(entry.dim, Rank)]
        if isinstance(leaf, torch.Tensor):
            return {entry.axis % leaf.dim(): entry.dim for entry in declared if entry.owner == name and entry.axis is not None
                    and -leaf.dim() <= entry.axis < leaf.dim()}
        found = {None: entry.dim for entry in declared if whole_place(entry) == name}
        return found if type(leaf) is int else {}

    def key(self, names, leaves):
        """What makes a version of its own: ranks, since axes are declared by number, and sizes that are constants."""
        found = []
        for name, leaf, said in zip(names, leaves, self.said(names, leaves), strict=True):
            if said and isinstance(leaf, torch.Tensor):
                found.append((leaf.dim(), *(leaf.size(axis) for axis, dim in said.items() if self._constant(name, axis, dim, leaf.size(axis)))))
        return tuple(found)

    def _constant(self, name, axis, dim, size):
        if type(dim) is int or dim == Dim.STATIC or dim.low == dim.high:
            return True
        if dim != Dim.STATIC_FIRST or (name, axis) in self._varied:
            return False
        if self._first.setdefault((name, axis), size) != size:
            self._varied.add((name, axis))
        return (name, axis) not in self._varied

    # --- what the recorder is told

    def input_specs(self, names, leaves):
        return [self._spec(name, leaf, said) for name, leaf, said in zip(names, leaves, self.said(names, leaves), strict=True)]

    def _spec(self, name, leaf, said):
        if type(leaf) is int:
            dim = said.get(None)
            return ("int", *(self._symbol(dim)[1:] if isinstance(dim, (Dim, Hint)) else (next(self._free),)))
        if not isinstance(leaf, torch.Tensor) or not said:
            return "tensor", []
        return "tensor", [self._size(name, axis, said.get(axis), size) for axis, size in enumerate(leaf.shape)], False

    def _size(self, name, axis, dim, size):
        if dim is None:
            return None
        if self._constant(name, axis, dim, size):
            return size
        if isinstance(dim, (Dim, Hint)):
            return self._symbol(dim)
        terms = [("mul", factor, self._symbol(term)) for term, factor in dim.terms]
        total = dim.constant
        for term in terms:
            total = ("add", term, total)
        return total

    def _symbol(self, dim):
        number = self._numbers.setdefault(dim.name, len(self._numbers)) if isinstance(dim, Dim) else next(self._free)
        return "sym", number, dim.low, dim.high

    def loose(self, names, leaves):
        """Whether a call that fits the versions made for such a call might still not be as declared."""
        said = self.said(names, leaves)
        bound = {dim.name for dims in said for dim in dims.values() if isinstance(dim, Dim)}
        return any(is_loose(axis, dim, bound) for dims in said for axis, dim in dims.items())

    # --- what a version is held to

    def hold(self, entry, leaves, code, args, kwargs):
        """DimError unless the versions that this call has added keep to what was declared."""
        call, names = Call(self.contract, args, kwargs), entry.leaf_names
        self.contract.arguments = {name: kind_of(value) for name, value in frames.arguments_of(call)}
        places = {place_name(*place): place for place, _ in frames.call_values(call)}
        versions = entry.region.info()["versions"]
        for version in versions[entry.held:]:
            sizes = list(self._sizes(version, names, leaves, places))
            findings = Findings(sizes, list(relied_on(version, names)), proven)
            facts = frames.hold(self.contract, findings, (), outcome)
            self.contract.learned.append((code, facts))
            entry.dim_facts.append(facts)
        entry.held = len(versions)

    def _sizes(self, version, names, leaves, places):
        """Every dim of the call as the version has it."""
        sources = {symbol["source"]: symbol["symbol"] for symbol in version["symbols"]}
        pins = pinned(version)
        for number, (name, leaf, said) in enumerate(zip(names, leaves, self.said(names, leaves), strict=True)):
            place, source = places.get(name, (name, ())), f"arg{number}"
            if type(leaf) is int:
                yield traced_size(place, None, said.get(None), leaf, sources.get(source), pins)
            elif isinstance(leaf, torch.Tensor):
                for axis, size in enumerate(leaf.shape):
                    yield traced_size(place, axis, said.get(axis), size, sources.get(f"{source}.size[{axis}]"), pins)


def whole_place(entry):
    return entry.owner if entry.axis is None else place_name(entry.argument, (*entry.path, entry.axis))


def is_loose(axis, dim, bound):
    if axis is None:
        return not isinstance(dim, Dim) and dim != Dim.AUTO
    return isinstance(dim, Linear) and not all(term.name in bound for term, _ in dim.terms)


def traced_size(place, axis, dim, value, symbol, pins):
    """A size of 0 or 1 that only an operator pinned is a constant and no breach."""
    dim = value if isinstance(dim, Linear) and dim.low == dim.high else dim
    key, place, pin = (*place, axis), str(Leaf(*place, axis, None)), pins.get(symbol)
    if pin is not None and (not isinstance(dim, Linear) or value < 2 and not pin.host):
        return Size(place, key, dim, None, value, f"pinned at {pin.where}", True)
    if symbol is not None:
        return Size(place, key, dim, as_variable(symbol), value, "")
    if isinstance(dim, Linear):
        return Size(place, key, dim, sympy.Dummy(integer=True, nonnegative=True), value, "")
    return Size(place, key, dim, None, value, "as declared")


def pinned(version):
    """symbol -> the relation that says it is one number."""
    found = {}
    for guard in asked(version):
        left, _, right = guard["guard"].partition(" == ")
        for symbol, number in ((left, right), (right, left)):
            if SYMBOL.fullmatch(symbol) and number.lstrip("-").isdigit():
                found[symbol] = relation_of(guard, guard["guard"])
    return found


def asked(version):
    """The guards of a version that the program or an operator asked for, of those that are tested before it runs."""
    return [guard for guard in version["guards"] if guard["at_entry"] and guard["because"] != "declared"]


def relied_on(version, names):
    places = {symbol["symbol"]: in_words(symbol["source"], names) for symbol in version["symbols"]}
    for guard in asked(version):
        found = relation_of(guard, SYMBOL.sub(lambda match: places.get(match[0], match[0]), guard["guard"]))
        if found.expr not in (sympy.true, sympy.false):
            yield found


def in_words(source, names):
    """arg0.size[1] -> x.size(1)"""
    match = re.fullmatch(r"arg(\d+)(?:\.(\w+)\[(\d+)\])?", source)
    if match is None or int(match[1]) >= len(names):
        return source
    return names[int(match[1])] + (f".{match[2]}({match[3]})" if match[2] else "")


def relation_of(guard, text):
    host = guard["because"] == "branch" or "read" in guard["because"].split()
    return Relation(as_sympy(guard["guard"]), text, guard["location"] or "an unknown place", host)


def as_sympy(text):
    """A relation as the core prints it. Its grammar is Python's, but for `broadcasts`."""
    word = next(word for word in ("broadcasts", "==", "!=", "<=", "<") if f" {word} " in text)
    sides = text.split(f" {word} ")
    names = Names(FUNCTIONS, **{name: as_variable(name) for name in SYMBOL.findall(text)})
    left, right = (sympy.sympify(eval(side, {"__builtins__": {}}, names)) for side in sides)
    if isinstance(left, RealLess) and word == "==" and right in (0, 1):
        return sympy.Lt(*left.args) if right == 1 else sympy.Ge(*left.args)
    return RELATIONS[word](left, right)


class Names(dict):
    """Any other function (of very wide sums) is one that nothing is known of."""

    def __missing__(self, name):
        return sympy.Function(name, integer=True)


def as_variable(symbol):
    return sympy.Symbol(symbol, integer=True, **({"nonnegative": True} if symbol[0] == "s" else {}))


def outcome(size):
    """The constant, or the range that this version serves."""
    if size.symbol is None:
        return size.value
    return Hint("AUTO", 0, LARGEST) if not isinstance(size.dim, Hint) else Hint("AUTO", size.dim.low, size.dim.high)
