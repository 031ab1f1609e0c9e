"""A contract: the spec of one compiled function, held against its calls and against its program.

At a call every leaf is read and tested (`check`), in one flat loop without any test for what the spec does not say. At a compile
the front end tells which inputs of the frame are the call's arguments (`names_in`), and which relations between sizes the program
relies on; `Findings` decides what they mean for the declared dims:

  joined     an unnamed dim that must equal an expression of named ones has their name and range from now on
  broken     a named dim that is one constant, equals another name, or decides a branch: DimError, with line and reason
  narrowed   an operator (not the program) tests a named dim: another version serves the rest of the range. It is reported, and
             with the option `strict` it is an error too

A size of 0 or 1 that could only be traced as itself is no breach: that version serves this size, another one serves the rest.
"""

import inspect
import itertools
import threading
import typing

import torch

from .dims import LARGEST, Dim, Hint, Leaf, Linear, Rank, declared_text, place_name, range_text, read_spec
from .errors import DimError
from .option_values import near

calls = threading.local()    # .current: the Call this thread is in
numbers = itertools.count(1)
ABSENT = object()


class Call(typing.NamedTuple):
    contract: object
    args: tuple
    kwargs: dict


class Contract:
    """What was declared about one compiled function. Two of them on one function are two budgets and two sets of versions."""

    def __init__(self, target, spec=None, strict=False):
        self.number, self.strict = next(numbers), strict
        self.parameters = parameters_of(target, required=bool(spec))
        self.code = getattr(inspect.unwrap(getattr(target, "__func__", target)), "__code__", None)
        rest = [name for name, parameter in self.parameters.items() if parameter.kind is parameter.VAR_KEYWORD]
        self.leaves = read_spec(flat(spec or {}, rest), [name for name in self.parameters if name not in rest], bool(rest))
        self.readers = {name: reader(name, self.parameters) for name in {leaf.argument: None for leaf in self.leaves}}
        self.places = places(self.leaves, self.readers)
        self.learned = []        # (code, facts) of each program that was compiled
        self.arguments = {}      # what a call looks like: kind_of each argument

    def check(self, args, kwargs):
        """Raises DimError unless the call is as declared. Runs at every call: what it does for a tensor is one loop of few steps."""
        known, derived = {}, []
        for argument, read, path, rank, checks in self.places:
            value = read(args, kwargs)
            if path:
                value = follow(value, path, argument)
            if value is None or value is ABSENT:
                continue
            tensor = isinstance(value, torch.Tensor)
            sizes = value.shape if tensor else value
            if rank is not None:
                check_rank(rank, sizes)
            for leaf, axis, low, high, name in checks:
                try:
                    size = sizes[axis] if tensor else size_of(sizes, axis, leaf)
                except (IndexError, TypeError):
                    raise unfit(leaf, sizes) from None
                if not low <= size <= high:
                    raise out_of_range(leaf, size, tensor)
                if name is None:
                    continue
                if name is DERIVED:
                    derived.append((leaf, size))
                elif known.setdefault(name, size) != size:
                    raise DimError(f"{leaf} is {size}, but it is declared as {name}, which is {known[name]} by "
                                   f"{self.origin(name, args, kwargs)}")
        if derived:
            settle(derived, known, lambda name: self.origin(name, args, kwargs))

    def origin(self, name, args, kwargs):
        """The first leaf of this call that says what a named dim is; else the expression it was solved from."""
        given = [leaf for _, read, path, _, checks in self.places if is_there(follow(read(args, kwargs), path))
                 for leaf, *_ in checks if isinstance(leaf.dim, Linear)]
        return next((leaf for leaf in given if getattr(leaf.dim, "name", None) == name),
                    next((leaf for leaf in given if name in [dim.name for dim, _ in leaf.dim.terms]), None))


DERIVED = object()   # in place of a name: the leaf is an expression


def parameters_of(target, required):
    try:
        return dict(inspect.signature(target).parameters)
    except (TypeError, ValueError):
        if not required:
            return {}
        raise DimError(f"the arguments of {target!r} cannot be read, so dims cannot be declared for it") from None


def flat(spec, rest):
    """What is said about the dict of **kwargs, as if said about its entries."""
    if not isinstance(spec, dict) or not any(name in spec for name in rest):
        return spec
    return {**{name: said for name, said in spec.items() if name not in rest},
            **{key: said for name in rest for key, said in spec.get(name, {}).items()}}


def reader(name, parameters):
    """A function of (args, kwargs) that gives the argument, or ABSENT."""
    parameter = parameters.get(name)
    if parameter is None:                       # one of **kwargs
        return lambda args, kwargs: kwargs.get(name, ABSENT)
    positional = [key for key, other in parameters.items() if other.kind in (other.POSITIONAL_ONLY, other.POSITIONAL_OR_KEYWORD)]
    if parameter.kind is parameter.VAR_POSITIONAL:
        return lambda args, kwargs, start=len(positional): args[start:]
    default = ABSENT if parameter.default is parameter.empty else parameter.default
    if parameter.kind is parameter.KEYWORD_ONLY:
        return lambda args, kwargs: kwargs.get(name, default)
    position = positional.index(name)
    return lambda args, kwargs: args[position] if position < len(args) else kwargs.get(name, default)


def places(leaves, readers):
    """What a call can violate, grouped by the value it looks at: (argument, its reader, path, the leaf that says the rank, checks)."""
    groups = {}
    for leaf in leaves:
        if isinstance(leaf.dim, Hint) and (leaf.dim.low, leaf.dim.high) == (0, LARGEST):
            continue
        ranks, checks = groups.setdefault((leaf.argument, leaf.path), ([None], []))
        if isinstance(leaf.dim, Rank):
            ranks[0] = leaf
        else:
            low, high = (leaf.dim, leaf.dim) if type(leaf.dim) is int else (leaf.dim.low, leaf.dim.high)
            name = getattr(leaf.dim, "name", DERIVED if isinstance(leaf.dim, Linear) else None)
            checks.append((leaf, leaf.axis, low, high, name))
    return tuple((argument, readers[argument], path, ranks[0], tuple(checks)) for (argument, path), (ranks, checks) in groups.items())


def check_rank(leaf, sizes):
    if not isinstance(sizes, (list, tuple)) or len(sizes) != leaf.dim.axes:
        raise DimError(f"{leaf} {shape_text(sizes)}, but dims lists {leaf.dim.axes} for it")


def out_of_range(leaf, size, tensor):
    place = leaf if leaf.axis is None or tensor else place_name(leaf.argument, leaf.path + (leaf.axis,))
    return DimError(f"{place} is {size}, but it is declared as {declared_text(leaf.dim)}")


def follow(value, path, argument=""):
    for depth, key in enumerate(path):
        if value is None or value is ABSENT:
            return None
        if isinstance(value, torch.Tensor):
            raise DimError(f"dims names {place_name(argument, path[:depth + 1])}, but {place_name(argument, path[:depth])} is a tensor; "
                           "its dims are named by axis")
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            raise DimError(f"dims names {place_name(argument, path[:depth + 1])}, but there is no {key!r}"
                           f"{near(str(key), map(str, value)) if isinstance(value, dict) else ''}") from None
    return value


def size_of(value, axis, leaf):
    """The integer that a leaf means where its place holds no tensor: the value itself, or an entry of a list."""
    size = value if axis is None else value[axis]
    if isinstance(size, int) and type(size) is not bool:
        return size
    raise unfit(leaf, value)


def unfit(leaf, value):
    return DimError(f"dims declares {leaf} as {declared_text(leaf.dim)}, but {leaf.owner} {shape_text(value)}")


def is_there(value):
    return value is not None and value is not ABSENT


def shape_text(value):
    if isinstance(value, torch.Size):
        return f"has {len(value)} dims"
    return f"has {len(value)} entries" if isinstance(value, (list, tuple)) else f"is of type {type(value).__name__}"


def settle(derived, known, origin):
    """Derived dims against the named ones. An expression with one name that no leaf gave is solved for it."""
    waiting = derived
    while waiting:
        later = [item for item in waiting if not settled(*item, known, origin)]
        if len(later) == len(waiting):
            return                  # too many unknown names: any of their values would do
        waiting = later


def settled(leaf, size, known, origin):
    unknown = [(dim, factor) for dim, factor in leaf.dim.terms if dim.name not in known]
    given = sum(factor * known[dim.name] for dim, factor in leaf.dim.terms if dim.name in known) + leaf.dim.constant
    if len(unknown) > 1:
        return False
    if not unknown:
        if given != size:
            because = ", ".join(f"{dim.name} is {known[dim.name]} by {origin(dim.name)}" for dim, _ in leaf.dim.terms)
            raise DimError(f"{leaf} is {size}, but it is declared as {leaf.dim!r}, which is {given} because {because}")
        return True
    (dim, factor), = unknown
    if (size - given) % factor or not dim.low <= (size - given) // factor <= dim.high:
        raise DimError(f"{leaf} is {size}, but it is declared as {leaf.dim!r}, which no {declared_text(dim)} gives")
    known[dim.name] = (size - given) // factor
    return True


# --- at a compile

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


def current_contract():
    call = getattr(calls, "current", None)
    return call.contract if call is not None else None


def frame_inputs(code, frame_locals):
    """The call's own tensors among a frame's locals, by the names that Dynamo gives to them; integers in the function's own frame.

    Tensors are recognised by identity, so that the frames after a graph break and the callers that torch puts around a module
    find them too. The same number may be anything, so integers are not.
    """
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
    """What the spec says about this value; a list of integers may be declared through its own place or through its entries."""
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
            raise DimError(f"{size.place} is declared as {declared_text(size.dim)}, but the program holds for {size.value} only: "
                           f"{size.why}")
    return tuple(fact(size, findings, outcome_of(size)) for size in findings.sizes)


def fact(size, findings, outcome):
    """`outcome`: the constant, or the range the program serves."""
    named = findings.what_is(size.symbol) if size.symbol is not None else None
    joined = findings.joined.get(size.symbol)
    declared = "" if size.dim is None else declared_text(size.dim)
    why = f"joined by: {joined}" if joined is not None else constant_because(size, declared) if type(outcome) is int else \
        narrowed(size, findings)
    return DimFact(size.place, declared, outcome if named is None else named, why, size.key, size.dim is not None or joined is not None)


def constant_because(size, declared):
    if size.dim == Dim.STATIC_FIRST and not size.pinned:
        return f"{declared}: no other size was seen"
    if type(size.dim) is int or size.dim == Dim.STATIC:
        return "as declared"
    return f"although it is declared as {declared}: {size.why}" if declared else size.why


def narrowed(size, findings):
    """What this version relies on about the size; another version serves the other side."""
    names = {dim.name for dim, _ in size.dim.terms} if isinstance(size.dim, Linear) else ()
    tests = [str(relation) for relation, found in findings.narrowed if any(str(symbol) in names for symbol in found.free_symbols)]
    tests += [str(relation) for relation in findings.relations if relation.expr.free_symbols == {size.symbol} and not names]
    return f"this version relies on {', and '.join(dict.fromkeys(tests))}" if tests else ""


def shaped_like(arguments, of):
    """The structure of a call with `of(key)` for each axis of each tensor, and None for what has no dims."""
    return {name: filled((name, ()), kind, of) for name, kind in arguments.items()}


def filled(place, kind, of):
    if type(kind) is int:
        return {axis: of((*place, axis)) for axis in range(kind)}
    if isinstance(kind, dict):
        return {key: filled((place[0], place[1] + (key,)), item, of) for key, item in kind.items()}
    if isinstance(kind, list):
        return [filled((place[0], place[1] + (i,)), item, of) for i, item in enumerate(kind)]
    return None


def kind_of(value):
    """A tensor as its number of axes, containers as themselves, anything else as None."""
    if isinstance(value, torch.Tensor):
        return value.dim()
    if isinstance(value, dict):
        return {key: kind_of(item) for key, item in value.items()}
    return [kind_of(item) for item in value] if isinstance(value, (list, tuple)) else None
