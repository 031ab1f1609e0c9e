"""A contract: the spec of one compiled function, held against every call. (frames.py holds it against the program.)

At a call every leaf is read and tested (`check`), in one flat loop without any test for what the spec does not say. A
leaf whose argument is absent or None is not tested: whether the argument may be absent is the function's business.
"""

import inspect
import itertools
import threading
import typing

import torch

from ..errors import DimError
from ..option_values import near
from .spec import LARGEST, Hint, Linear, Rank, declared_text, place_name, read_spec

calls = threading.local()    # .current: the Call this thread is in
numbers = itertools.count(1)
ABSENT = object()


class Call(typing.NamedTuple):
    contract: object
    args: tuple
    kwargs: dict


class Contract:
    """What was declared about one compiled function. Two of them on one function are two budgets and two sets of
    versions."""

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
        """Raises DimError unless the call is as declared. Runs at every call: what it does for a tensor is one loop of
        few steps."""
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


def current_contract():
    call = getattr(calls, "current", None)
    return call.contract if call is not None else None


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
    positional = [key for key, other in parameters.items()
                  if other.kind in (other.POSITIONAL_ONLY, other.POSITIONAL_OR_KEYWORD)]
    if parameter.kind is parameter.VAR_POSITIONAL:
        return lambda args, kwargs, start=len(positional): args[start:]
    default = ABSENT if parameter.default is parameter.empty else parameter.default
    if parameter.kind is parameter.KEYWORD_ONLY:
        return lambda args, kwargs: kwargs.get(name, default)
    position = positional.index(name)
    return lambda args, kwargs: args[position] if position < len(args) else kwargs.get(name, default)


def places(leaves, readers):
    """What a call can violate, grouped by the value it looks at: (argument, its reader, path, the leaf that says the
    rank, checks)."""
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
    return tuple((argument, readers[argument], path, ranks[0], tuple(checks))
                 for (argument, path), (ranks, checks) in groups.items())


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
            inside, tensor = place_name(argument, path[:depth + 1]), place_name(argument, path[:depth])
            raise DimError(f"dims names {inside}, but {tensor} is a tensor; its dims are named by axis")
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
