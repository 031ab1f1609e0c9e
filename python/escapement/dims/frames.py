"""What a contract means for one traced frame: which of its inputs are the call's arguments, and what became of their dims.

`Findings` decides what the relations that the program relies on mean for the declared dims:

  joined     an unnamed dim that must equal an expression of named ones has their name and range from now on
  broken     a named dim that is one constant, equals another name, or decides a branch: DimError, with line and reason
  narrowed   an operator (not the program) tests a named dim: another version serves the rest of the range. It is
             reported, and with the option `strict` it is an error too

A size of 0 or 1 that could only be traced as itself is no breach: that version serves this size, another one serves the
rest.
"""

import typing

import torch

from ..errors import DimError
from .contract import ABSENT, calls, reader
from .learned import kind_of
from .spec import Dim, Hint, Leaf, Linear, Rank, declared_text, place_name, range_text


class Input(typing.NamedTuple):
    """A tensor or integer of the frame that is one of the call's."""

    argument: str
    path: tuple
    value: object
    dims: dict           # axis, or None for an integer -> what was declared

    def key(self, axis):
        return self.argument, self.path, axis

    def place(self, axis):
        return str(Leaf(self.argument, self.path, axis, None))


def frame_inputs(code, frame_locals):
    """The call's own tensors among a frame's locals, by the names that Dynamo gives to them; integers in the function's
    own frame.

    Tensors are recognised by identity, so that the frames after a graph break and the callers that torch puts around a
    module find them too. The same number may be anything, so integers are not."""
    call = getattr(calls, "current", None)
    if call is None:
        return {}
    given = dict(call_values(call))
    call.contract.arguments = {name: kind_of(value) for name, value in arguments_of(call)}
    inputs = {}
    for place, value in given.items():
        if isinstance(value, torch.Tensor):   # passed twice, it is what is said about either
            made, other = input_at(call.contract, place, value), inputs.get(id(value))
            inputs[id(value)] = made if other is None else other._replace(dims={**made.dims, **other.dims})
    found = {source: inputs[id(value)] for source, value in frame_values(frame_locals) if id(value) in inputs}
    if code is call.contract.code:
        found.update({place_name(f"L[{argument!r}]", path): input_at(call.contract, (argument, path), value)
                      for (argument, path), value in given.items() if type(value) is int})
    return found


def call_values(call):
    """((argument, path), value) of every tensor and integer of the call."""
    for name, value in arguments_of(call):
        yield from walk((name, ()), value)


def arguments_of(call):
    parameters = call.contract.parameters
    named = [name for name, parameter in parameters.items() if parameter.kind is not parameter.VAR_KEYWORD]
    for name in dict.fromkeys(named + list(call.kwargs)):
        value = reader(name, parameters)(call.args, call.kwargs)
        if value is not ABSENT:
            yield name, value


def frame_values(frame_locals):
    for name, value in frame_locals.items():
        for (argument, path), found in walk((name, ()), value):
            yield place_name(f"L[{argument!r}]", path), found


def walk(place, value, depth=6):
    if isinstance(value, torch.Tensor) or type(value) is int:
        yield place, value
    elif depth and isinstance(value, (dict, list, tuple)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from walk((place[0], place[1] + (key,)), item, depth - 1)


def input_at(contract, place, value):
    """What the spec says about this value; a list of integers may be declared through its own place or through its
    entries."""
    rank = value.dim() if isinstance(value, torch.Tensor) else 0
    dims = {None if leaf.axis is None else leaf.axis % max(rank, 1): leaf.dim for leaf in contract.leaves
            if (leaf.argument, leaf.path) == place and not isinstance(leaf.dim, Rank)}
    if type(value) is int and place[1]:
        entry = (place[0], place[1][:-1], place[1][-1])
        dims.update({None: leaf.dim for leaf in contract.leaves if (leaf.argument, leaf.path, leaf.axis) == entry})
    return Input(*place, value, dims)


class DimFact(typing.NamedTuple):
    """What became of one dim of the call in one program: a line of explain(), and what learned_dims() knows."""

    place: str
    declared: str
    outcome: object      # Linear (a named dim or an expression of such), Hint (dynamic, with its range), int (a constant)
    why: str
    key: tuple           # argument, path, axis
    said: bool           # the spec speaks of it, or it was joined to one that is named

    def __str__(self):
        return f"{self.place} is {outcome_text(self.outcome)}{', ' if self.why else ''}{self.why}"


def outcome_text(outcome):
    if isinstance(outcome, Hint):
        return f"dynamic{range_text(outcome.low, outcome.high, ', ')}"
    return declared_text(outcome)


def hold(contract, findings, constants, outcome_of):
    """The facts about the call's dims; DimError where the program does not keep to what was declared."""
    broken = findings.broken + (findings.narrowed if contract.strict else [])
    if broken:   # all of them at once: nobody wants to meet them one by one
        raise DimError("\n".join(dict.fromkeys([findings.complaint(*breach) for breach in broken] + list(constants))))
    for size in findings.sizes:
        if size.symbol is None and isinstance(size.dim, Linear) and size.value > 1 and size.dim.low != size.dim.high:
            raise DimError(f"{size.place} is declared as {declared_text(size.dim)}, but the program holds for {size.value} "
                           f"only: {size.why}")
    return tuple(fact(size, findings, outcome_of(size)) for size in findings.sizes)


def fact(size, findings, outcome):
    """`outcome`: the constant, or the range the program serves."""
    named = findings.what_is(size.symbol) if size.symbol is not None else None
    joined = findings.joined.get(size.symbol)
    declared = "" if size.dim is None else declared_text(size.dim)
    why = f"joined by: {joined}" if joined is not None else constant_because(size, declared) if type(outcome) is int else \
        narrowed(size, findings)
    said = size.dim is not None or joined is not None
    return DimFact(size.place, declared, outcome if named is None else named, why, size.key, said)


def constant_because(size, declared):
    if size.dim == Dim.STATIC_FIRST and not size.pinned:
        return f"{declared}: no other size was seen"
    if type(size.dim) is int or size.dim == Dim.STATIC:
        return "as declared"
    return f"although it is declared as {declared}: {size.why}" if declared else size.why


def narrowed(size, findings):
    """What this version relies on about the size; another version serves the other side."""
    names = {dim.name for dim, _ in size.dim.terms} if isinstance(size.dim, Linear) else set()
    tests = [str(relation) for relation, found in findings.narrowed if not names.isdisjoint(map(str, found.free_symbols))]
    tests += [str(relation) for relation in findings.relations if relation.expr.free_symbols == {size.symbol} and not names]
    return f"this version relies on {', and '.join(dict.fromkeys(tests))}" if tests else ""
