"""What a user may say about a dim, and how a spec is read. Nothing here knows torch's tracing.

A spec is a mapping from argument names to what is said about them: a dict or list of dims per axis for a tensor, one
dim for an integer, and dicts and lists of these for containers. It is read once, into a flat list of leaves. A leaf
names one integer of a call: which argument, which way into it, which axis. So the spec itself decides nothing about
types; the values of a call do.

  Dim("n", min, max)   a name for a size. Equal names are equal sizes; one version must serve the whole range
  2 * n + 1            derived: any linear expression of named dims with integer coefficients
  7                    this size and no other, at every call
  Dim.AUTO             dynamic where the program allows it, and reported where not. What is not mentioned, or None, is AUTO
  Dim.STATIC           a version per size
  Dim.STATIC_FIRST     a constant until a second size is seen, then dynamic
"""

import collections.abc
import typing

from ..errors import DimError
from ..option_values import near

LARGEST = 2**63 - 1


class Hint:
    """A dim without a name: how it starts, and which values are allowed."""

    def __init__(self, kind, low=0, high=LARGEST):
        self.kind, self.low, self.high = kind, low, high

    def __call__(self, *, min=None, max=None):
        """Dim.AUTO(min=3, max=6): checked at every call, but the program may still pin it."""
        return Hint(self.kind, *interval(f"Dim.{self.kind}", min, max))

    def __eq__(self, other):
        return isinstance(other, Hint) and (self.kind, self.low, self.high) == (other.kind, other.low, other.high)

    def __hash__(self):
        return hash((self.kind, self.low, self.high))

    def __repr__(self):
        return f"Dim.{self.kind}{range_text(self.low, self.high, ' ')}"


class Linear:
    """A sum of named dims with integer coefficients, and a constant."""

    def __init__(self, terms, constant):
        self.terms = tuple(sorted(((dim, factor) for dim, factor in terms.items() if factor), key=lambda term: term[0].name))
        self.constant = constant

    @property
    def low(self):
        lowest = sum(factor * (dim.low if factor > 0 else dim.high) for dim, factor in self.terms)
        return max(0, self.constant + lowest)

    @property
    def high(self):
        highest = sum(factor * (dim.high if factor > 0 else dim.low) for dim, factor in self.terms)
        return min(LARGEST, self.constant + highest)

    def value(self, known):
        return self.constant + sum(factor * known[dim.name] for dim, factor in self.terms)

    def __eq__(self, other):
        return isinstance(other, Linear) and (self.terms, self.constant) == (other.terms, other.constant)

    def __hash__(self):
        return hash((self.terms, self.constant))

    def __add__(self, other):
        return combined(self, 1, other, 1)

    __radd__ = __add__

    def __sub__(self, other):
        return combined(self, 1, other, -1)

    def __rsub__(self, other):
        return combined(self, -1, other, 1)

    def __neg__(self):
        return scaled(self, -1)

    def __mul__(self, factor):
        return scaled(self, factor)

    __rmul__ = __mul__

    def __repr__(self):
        words = [f"{'' if abs(factor) == 1 else f'{abs(factor)}*'}{dim.name}" for dim, factor in self.terms]
        signs = ["-" if factor < 0 else "+" for _, factor in self.terms]
        if self.constant or not words:
            words, signs = words + [str(abs(self.constant))], signs + ["-" if self.constant < 0 else "+"]
        rest = "".join(f" {sign} {word}" for sign, word in zip(signs[1:], words[1:]))
        return ("-" if signs[0] == "-" else "") + words[0] + rest


class Dim(Linear):
    """A named size in [min, max]; both ends belong to it, and a missing end is open."""

    AUTO, STATIC, STATIC_FIRST = Hint("AUTO"), Hint("STATIC"), Hint("STATIC_FIRST")
    low = high = None

    def __init__(self, name, min=None, max=None):
        if not isinstance(name, str) or not name.isidentifier():
            raise DimError(f"a Dim is named like a variable; got {name!r}")
        self.name = name
        self.low, self.high = interval(f"Dim({name!r})", min, max)
        self.terms, self.constant = ((self, 1),), 0

    def __eq__(self, other):
        return isinstance(other, Dim) and (self.name, self.low, self.high) == (other.name, other.low, other.high)

    def __hash__(self):
        return hash((self.name, self.low, self.high))

    def __repr__(self):
        return self.name


def interval(what, low, high):
    low, high = 0 if low is None else low, LARGEST if high is None else high
    for end in (low, high):
        if type(end) is not int or end < 0:
            raise DimError(f"{what}: an end of a range is an integer that is not negative; got {end!r}")
        if end > LARGEST:
            raise DimError(f"{what}: a size is an integer from 0 to 2**63 - 1; got {end}. Without an end the range is open")
    if low > high:
        raise DimError(f"{what}: the range [{low}, {high}] is empty")
    return low, high


def combined(left, left_factor, right, right_factor):
    right = Linear({}, right) if type(right) is int else right
    if not isinstance(right, Linear):
        return NotImplemented
    terms = collections.defaultdict(int)
    for side, factor in ((left, left_factor), (right, right_factor)):
        for dim, own in side.terms:
            terms[dim] += factor * own
    return Linear(terms, left_factor * left.constant + right_factor * right.constant)


def scaled(expression, factor):
    if type(factor) is not int:
        raise DimError(f"a derived dim is linear with integer coefficients; {expression!r} is multiplied by {factor!r}")
    return Linear({dim: own * factor for dim, own in expression.terms}, expression.constant * factor)


def range_text(low, high, before=""):
    """[3, 6], >= 3, <= 6, or nothing where both ends are open."""
    if high == LARGEST:
        return f"{before}>= {low}" if low else ""
    return f"{before}in [{low}, {high}]" if low else f"{before}<= {high}"


def declared_text(dim):
    """How messages call it: `n in [3, 6]`, `2*n + 1 in [7, 13]`, `Dim.AUTO in [3, 6]`, `7`."""
    return f"{dim!r}{range_text(dim.low, dim.high, ' ')}" if isinstance(dim, Linear) else repr(dim)


# --- reading a spec

class Leaf(typing.NamedTuple):
    """What is said about one integer of a call."""

    argument: str
    path: tuple          # keys and indices from the argument to the tensor, container or integer
    axis: typing.Optional[int]   # None where the value itself is meant
    dim: object          # Dim, Linear, Hint, int, or Rank

    @property
    def owner(self):
        return place_name(self.argument, self.path)

    def __str__(self):
        return self.owner if self.axis is None else f"{self.owner}.size({self.axis})"


class Rank(typing.NamedTuple):
    """Said by a list: it names every axis."""

    axes: int


def place_name(argument, path):
    return argument + "".join(f"[{key!r}]" for key in path)


def read_spec(spec, names, open_ended):
    """The leaves of a spec. `names` are the arguments there are; `open_ended` says that any keyword is one (**kwargs)."""
    if not isinstance(spec, collections.abc.Mapping):
        raise DimError(f"dims is a mapping from argument names to dims; got {type(spec).__name__}")
    unknown = [name for name in spec if name not in names and not open_ended]
    if unknown:
        raise DimError(f"dims names {unknown[0]!r}, which is no argument{near(str(unknown[0]), names)}; "
                       f"the arguments are {', '.join(names)}")
    found = [leaf for name, said in spec.items() for leaf in leaves(name, (), said)]
    check_names(found)
    return found


def leaves(argument, path, said):
    """What is said about one place: a dim, or a container of what is said about the places inside."""
    if isinstance(said, collections.abc.Mapping):
        yield from inside(argument, path, said.items())
    elif isinstance(said, (list, tuple)):
        if not any(map(is_container, said)):
            yield Leaf(argument, path, None, Rank(len(said)))
        yield from inside(argument, path, enumerate(said))
    elif said is not None:
        yield Leaf(argument, path, None, as_dim(said, place_name(argument, path)))


def inside(argument, path, items):
    for key, said in items:
        if is_container(said) or type(key) is not int:
            yield from leaves(argument, path + (key,), said)
        elif said is not None:
            yield Leaf(argument, path, key, as_dim(said, f"{place_name(argument, path)}, axis {key}"))


def is_container(said):
    return isinstance(said, (collections.abc.Mapping, list, tuple))


def as_dim(said, where):
    if isinstance(said, (Linear, Hint)):
        return said
    if type(said) is int and said >= 0:
        return said
    found = from_export(said)
    if found is None:
        raise DimError(f"{where}: {said!r} is no dim; a dim is a Dim, an expression of them, Dim.AUTO, Dim.STATIC, "
                       "Dim.STATIC_FIRST, an integer, or None")
    return found


def from_export(said):
    """torch.export's own dims, so that one spec serves both. Its derived dims hold a function; two values of it give
    the line."""
    from torch.export import Dim as ExportDim

    kind = getattr(getattr(said, "type", None), "name", None)
    if kind in ("AUTO", "DYNAMIC", "STATIC"):
        ends = (getattr(said, "min", None), getattr(said, "max", None))
        hint = Dim.STATIC if kind == "STATIC" else Dim.AUTO
        return hint if ends == (None, None) else hint(min=ends[0], max=ends[1])
    if hasattr(said, "root") and hasattr(said, "fn") and isinstance(said.root, ExportDim):
        constant = said.fn(0)
        return from_export(said.root) * (said.fn(1) - constant) + constant
    if not isinstance(said, ExportDim):
        return None
    return Dim(said.__name__, *(end if type(end) is int else None for end in (said.min, said.max)))


def check_names(found):
    """One name, one range."""
    seen = {}
    for leaf in found:
        for dim, _ in getattr(leaf.dim, "terms", ()):
            first = seen.setdefault(dim.name, (dim, leaf))
            if first[0] != dim:
                raise DimError(f"{leaf} is declared as {declared_text(dim)}, but {first[1]} as {declared_text(first[0])}: "
                               "one name has one range")
