"""Objects that are what their attributes are: as arguments, as results, changed by the function. And containers that somebody else holds, too: the caller gets
these very objects, whether a call is recorded, served or neither."""

import abc
import enum
import threading
import types
import weakref

import pytest
import torch
from torch import nn

import escapement

ROWS = [(2, 3), (5, 3), (1, 3), (2, 3), (7, 3)]


class Cache:
    """Grows, as those of language models do."""

    kind = "growing"

    def __init__(self):
        self.keys, self.length, self.layers = None, 0, []

    def update(self, x):
        self.keys = x if self.keys is None else torch.cat([self.keys, x])
        self.length += x.shape[0]
        return self.keys


class Bag:
    pass


class Layer(abc.ABC):
    def __init__(self, x=None):
        self.x = x

    def __len__(self):
        return 0


class Slots:
    __slots__ = ("a", "b", "__private")

    def __init__(self, a, b=None):
        self.a, self.b, self.__private = a, b, 3

    def value(self):
        return self.a * self.__private


class SlotsToo(Slots):
    def __init__(self, a):
        super().__init__(a, 2)
        self.c = a + 1


class Guarded:
    """Attributes that cannot be set, and one that stands behind a property."""

    def __init__(self, x):
        self.__dict__.update(x=x, hidden=4)

    @property
    def hidden(self):
        return self.__dict__["hidden"] * 2

    def __setattr__(self, name, value):
        raise AttributeError(name)


class Callable:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, x):
        return x * self.scale


class Color(enum.Enum):
    red = 1


class Ends:
    ended = 0

    def __init__(self, x):
        self.x = x

    def __del__(self):
        Ends.ended += 1


class Asked:
    def __init__(self, x):
        self.x = x

    def __getattribute__(self, name):
        return object.__getattribute__(self, name)


def tree(x):
    made = Cache()
    made.update(x)
    made.layers = [Layer(x + 1), Layer()]
    made.space = types.SimpleNamespace(y=x * 2, color=Color.red, nothing=None)
    return made


def opened(value):
    """Everything that can be seen of a result."""
    if isinstance(value, torch.Tensor):
        return value.tolist(), value.dtype
    if isinstance(value, (list, tuple)):
        return type(value), [opened(item) for item in value]
    if isinstance(value, dict):
        return type(value), [(key, opened(item)) for key, item in value.items()]
    slots = [(name, opened(getattr(value, name))) for name in ("a", "b", "_Slots__private") if isinstance(value, Slots)]
    space = getattr(value, "__dict__", None) if not isinstance(value, (type, enum.Enum)) else None
    return (type(value), slots, [(name, opened(item)) for name, item in (space or {}).items()]) if space is not None or slots else (type(value), value)


RESULTS = {
    "object": lambda x: Layer(x + 1), "tree": tree, "slots": lambda x: Slots(x * 2, x.shape[0]), "slots and attributes": lambda x: SlotsToo(x),
    "guarded": lambda x: Guarded(x * 3), "namespace": lambda x: types.SimpleNamespace(x=x, n=x.shape[0], f=x.shape[0] / 2),
    "in a tuple": lambda x: (x + 1, Layer(x)), "in a dict": lambda x: {"a": Layer(x), "b": [Layer(x + 1)]}, "the same twice": lambda x: (lambda o: (o, [o]))(Layer(x)),
    "order of attributes": lambda x: (lambda o: (setattr(o, "z", x), setattr(o, "a", 1), o)[2])(Layer()), "without attributes": lambda x: type("Empty", (), {})() and (x, 1),
    "with a method": lambda x: Callable(x.shape[0] + 1)(x),
}


@pytest.mark.parametrize("name", RESULTS)
def test_objects_as_results(name):
    fn = RESULTS[name]
    jitted = escapement.jit(fn)
    for shape in ROWS:
        x = torch.rand(shape)
        ours, theirs = jitted(x), fn(x)
        assert opened(ours) == opened(theirs)
    assert jitted.info()["eager"] == {} and jitted.info()["recordings"] <= 2


def grow(cache, x):
    return cache.update(x).amax(), cache


GIVEN = {
    "read": (lambda o, x: o.x * 2 + x, lambda x: Layer(x + 1)), "grown": (grow, lambda x: tree(x)), "empty": (grow, lambda x: Cache()),
    "slots": (lambda o, x: o.value() + x, lambda x: Slots(x)), "slots set": (lambda o, x: setattr(o, "b", x + o.a), lambda x: Slots(x, 1)),
    "attribute added": (lambda o, x: setattr(o, "new", x * 2), lambda x: Layer(x)), "attribute removed": (lambda o, x: (o.x + x, delattr(o, "x"))[0], lambda x: Layer(x)),
    "called": (lambda o, x: o(x), lambda x: Callable(2.5)), "called, with a number": (lambda o, x: o(x), lambda x: Callable(x.shape[0])),
    "nested": (lambda o, x: setattr(o.space, "y", o.layers[0].x + o.space.y), tree), "list in it": (lambda o, x: o.layers.append(Layer(x)), tree),
    "returned": (lambda o, x: (x + 1, o), tree), "part returned": (lambda o, x: (o.layers[0], o.space, x + 1), tree), "property": (lambda o, x: x * o.hidden + o.x, Guarded),
    "iterated": (lambda o, x: [x + i for i, _ in enumerate(vars(o).items())] + [[*vars(o)]], tree), "truth": (lambda o, x: x + 1 if o else x - 1, lambda x: Layer(x)),
    "type": (lambda o, x: (type(o), isinstance(o, Cache), o.kind, x + 1), tree), "in a list": (lambda o, x: o[0].x + o[1]["a"].x, lambda x: [Layer(x), {"a": Layer(x * 2)}]),
}


@pytest.mark.parametrize("name", GIVEN)
def test_objects_as_arguments(name):
    fn, make = GIVEN[name]
    jitted = escapement.jit(fn)
    for shape in ROWS:
        x = torch.rand(shape)
        ours, theirs = make(x), make(x)
        a, b = jitted(ours, x), fn(theirs, x)
        assert opened(a) == opened(b) and opened(ours) == opened(theirs)
        assert parts_of(a, ours) == parts_of(b, theirs)
    assert jitted.info()["eager"] == {} and jitted.info()["recordings"] <= 3


def parts_of(result, given):
    """Which of the results are the caller's own objects."""
    items = result if isinstance(result, (list, tuple)) else [result]
    known = [given, *getattr(given, "layers", []), getattr(given, "space", None)]
    return [[i for i, mine in enumerate(known) if item is mine and mine is not None] for item in items]


def test_a_growing_cache_takes_two_recordings():
    def step(x, cache):
        cache = Cache() if cache is None else cache
        return cache.update(x * 2).mean(0), cache

    jitted = escapement.jit(step)
    ours = theirs = None
    for n in (5, 1, 1, 3, 1, 2):
        x = torch.rand(n, 3)
        (a, ours), (b, theirs) = jitted(x, ours), step(x, theirs)
        assert torch.allclose(a, b) and opened(ours) == opened(theirs)
    assert jitted.info()["eager"] == {} and jitted.info()["recordings"] == 2


# --- objects that are more than their attributes go on in replay mode

class Bytes(bytes):
    pass


OTHERS = {
    "ends": lambda x: Ends(x), "asked": lambda x: Asked(x), "a lock in it": lambda x: (lambda o: (setattr(o, "lock", threading.Lock()), o)[1])(Layer(x)), "module": lambda x: nn.Linear(2, 2),
    "sentinel": lambda x: object(), "no attributes": lambda x: type("Empty", (), {})(), "itself in it": lambda x: (lambda o: (setattr(o, "me", o), o)[1])(Layer(x)),
    "bytes": lambda x: Bytes(b"12"), "generator": lambda x: (i for i in (1, 2)), "a function in it": lambda x: Layer(lambda: 1),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("where", ["argument", "result"])
def test_other_objects(name, where):
    make = OTHERS[name]
    seen = []

    def use(o, x):
        seen.append(o)
        return x * 2 if not hasattr(o, "x") or o.x is None or callable(o.x) else o.x + x

    def result(x):
        return make(x + 1), x * 2

    jitted = escapement.jit(use if where == "argument" else result)
    for shape in ROWS:
        x = torch.rand(shape)
        if where == "argument":
            given = make(x)
            seen.clear()
            assert torch.equal(jitted(given, x), use(given, x)) and all(o is given for o in seen)
        else:
            (a, y), (b, z) = jitted(x), result(x)
            assert type(a) is type(b) or name == "no attributes"
            assert torch.equal(y, z) and (not isinstance(getattr(a, "x", None), torch.Tensor) or torch.equal(a.x, b.x))
    built = where == "result" and name in ("sentinel", "no attributes")   # a new one for each call
    assert set(jitted.info()["eager"]) == (set() if built else {f"unsupported_{where}"})


def test_an_object_that_is_held_weakly_is_known_by_its_identity():
    registry = weakref.WeakKeyDictionary()

    def fn(o, x):
        return x * registry.get(o, 1)

    jitted, known = escapement.jit(fn), Layer(1)
    registry[known] = 3
    for o in (Layer(1), known, Layer(1), known):
        x = torch.rand(2, 3)
        assert torch.equal(jitted(o, x), fn(o, x))


# --- what somebody else holds, too

HELD = types.SimpleNamespace(object=Layer(torch.ones(3)), list=[1, 2], dict={"a": [3]}, inner=Layer([4]), tensor=torch.ones(3), grown=[])
GLOBAL_LIST, GLOBAL_OBJECT = [1], Layer(2)


def grown(x):
    HELD.grown.append(1)
    return x + 1, HELD.grown


def kept_new(x):
    made = Layer(x.shape[0])
    HELD.last = made
    return x + 1, made


def kept_tensor(x):
    HELD.object.x = x * 2
    return HELD.object


def default(x, kept=[]):
    kept.append(x.shape[0])
    return kept, x + 1


def visited(x):
    """Its own function holds the list in a cycle, until the collector comes."""
    found = []

    def visit(n):
        if n:
            found.append(x * n)
            visit(n - 1)

    visit(3)
    return found


PLACES = {
    "object": (lambda x: (x + 1, HELD.object), lambda: HELD.object), "list": (lambda x: (x + 1, HELD.list), lambda: HELD.list), "dict": (lambda x: {"x": x + 1, "d": HELD.dict}, lambda: HELD.dict),
    "inner list": (lambda x: (x + 1, HELD.dict["a"]), lambda: HELD.dict["a"]), "global list": (lambda x: (x + 1, GLOBAL_LIST), lambda: GLOBAL_LIST),
    "global object": (lambda x: [x + 1, GLOBAL_OBJECT], lambda: GLOBAL_OBJECT), "alone": (lambda x: GLOBAL_LIST, lambda: GLOBAL_LIST), "alone, an object": (lambda x: HELD.inner, lambda: HELD.inner),
    "in an object": (lambda x: Layer(HELD.list), lambda: HELD.list), "in a namespace": (lambda x: types.SimpleNamespace(x=x + 1, l=[HELD.inner]), lambda: HELD.inner),
    "grown": (grown, lambda: HELD.grown), "kept": (kept_new, lambda: HELD.last), "a tensor put in it": (kept_tensor, lambda: HELD.object), "default": (default, lambda: default.__defaults__[0]),
}


def found_in(value, wanted):
    if value is wanted:
        return True
    parts = value if isinstance(value, (list, tuple)) else value.values() if isinstance(value, dict) else vars(value).values() if hasattr(value, "__dict__") and not isinstance(value, (torch.Tensor, enum.Enum)) else ()
    return any(found_in(part, wanted) for part in parts)


@pytest.mark.parametrize("name", PLACES)
def test_what_is_held_elsewhere_comes_back_itself(name):
    fn, held = PLACES[name]
    jitted = escapement.jit(fn)
    for shape in ROWS:
        x = torch.rand(shape)
        ours = jitted(x)
        assert found_in(ours, held())
        shown = opened(ours)   # before the function runs again
        del ours
        theirs = opened(fn(x)) if name not in ("grown", "default") else shown
        assert shown == theirs and "Wrapper" not in repr(held())


def test_a_cycle_that_nobody_reaches_holds_nothing():
    jitted = escapement.jit(visited)
    for shape in ROWS:
        x = torch.rand(shape)
        assert opened(jitted(x)) == opened(visited(x))
    assert jitted.info()["eager"] == {}


class Holds(nn.Module):
    def __init__(self):
        super().__init__()
        self.state, self.names, self.linear = Layer(1), ["a"], nn.Linear(3, 3)

    def forward(self, x, state, names):
        return self.linear(x), state is self.state, names is self.names


def test_an_argument_that_the_function_finds_elsewhere_is_that_object():
    net = Holds().eval()
    jitted = escapement.jit(net)
    x, others = torch.rand(2, 3), (Layer(1), ["a"])
    with torch.no_grad():
        for state, names in (others, (net.state, others[1]), others, (others[0], net.names), (net.state, net.names), others):
            assert jitted(x, state, names)[1:] == net(x, state, names)[1:]
    assert jitted.info()["eager"] == {"argument_elsewhere": 3}


REGISTRY, BY_NAME, CELL = [], {}, types.SimpleNamespace(last=None)
PUT = {
    "list": lambda o, x: REGISTRY.append(o), "dict": lambda o, x: BY_NAME.update({x.shape[0]: o}), "attribute": lambda o, x: setattr(CELL, "last", o), "inside": lambda o, x: REGISTRY.append([o]),
    "a part": lambda o, x: REGISTRY.append(o.layers), "list given": lambda o, x: REGISTRY.append(o.layers[0]),
}


@pytest.mark.parametrize("name", PUT)
def test_arguments_that_the_function_keeps_are_the_callers(name):
    REGISTRY.clear(), BY_NAME.clear()
    jitted, given = escapement.jit(lambda o, x: (PUT[name](o, x), x + 1)[1]), []
    for shape in ROWS:
        given.append(tree(torch.rand(shape)))
        jitted(given[-1], torch.rand(shape))
        o = given[-1]
        assert found_in([REGISTRY, BY_NAME, CELL], {"a part": o.layers, "list given": o.layers[0]}.get(name, o))
    for kept in REGISTRY:
        assert any(found_in([o], kept[0] if isinstance(kept, list) and name == "inside" else kept) for o in given)


def test_nothing_is_taken_for_kept_that_is_not():
    """Of calls that only read, change or return what they are given."""
    for fn, make in GIVEN.values():
        jitted = escapement.jit(fn)
        jitted(make(torch.rand(2, 3)), torch.rand(2, 3))
        assert not any(entry.ever_put_away for entry in jitted.entries())


def test_another_class():
    jitted = escapement.jit(lambda o, x: (setattr(o, "__class__", Bag), x + 1)[1])
    for shape in ROWS:
        o = Cache()
        jitted(o, torch.rand(shape))
        assert type(o) is Bag


def test_keys_of_a_registry():
    first, other = Layer(1), Layer(1)
    registry = {first: 2.0}
    jitted = escapement.jit(lambda o, x: x * registry.get(o, 1.0))
    x = torch.rand(2, 3)
    for o in (other, first, other, first):
        assert torch.equal(jitted(o, x), x * registry.get(o, 1.0))


def test_large_trees_of_objects_are_not_copied():
    jitted = escapement.jit(lambda o, x: x + len(o))
    x = torch.rand(2)
    assert torch.equal(jitted([[1]] * 3 + [[i] for i in range(5000)], x), x + 5003)
    assert jitted.info()["eager"] == {"unsupported_argument": 1}
