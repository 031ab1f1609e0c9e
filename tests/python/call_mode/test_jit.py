"""escapement.jit in call mode: whatever is passed, returned, replaced or switched, a call gives what the function gives,
and the counters say how: from compiled code, recorded, or by the function itself under a reason.
"""

import collections
import colorsys
import dataclasses
import enum
import inspect
import functools
import gc
import math
import threading
import weakref

import pytest
import torch
import torch.fx.experimental.proxy_tensor
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

import escapement
from escapement.errors import ContractError, OptionError
from jit_cases import check, equal, matrix

pytestmark = pytest.mark.usefixtures("fresh")
Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Box:
    data: torch.Tensor
    scale: float = 2.0
    tag: str = "a"


@dataclasses.dataclass(slots=True)
class Slots:
    data: torch.Tensor
    scale: int = 2
    tag: str = "a"


@dataclasses.dataclass(frozen=True)
class Frozen:
    data: torch.Tensor


class Color(enum.Enum):
    RED = 1
    BLUE = 2


# --- arguments and results

TREES = {
    "tensors": (lambda x, y: x * 2 + y, lambda n: (matrix(n), matrix(n, seed=1))),
    "keywords": (lambda x, *, y=None, z=1: x + (0 if y is None else y) * z,
                 lambda n: [matrix(n), dict(y=matrix(n), z=3, kwargs=True)]),
    "default_none": (lambda x, mask=None: x if mask is None else x * mask, lambda n: (matrix(n), None)),
    "dict": (lambda d: {"sum": d["a"] + d["b"], "a": d["a"]}, lambda n: ({"a": matrix(n), "b": matrix(n, seed=2)},)),
    "ordered_dict": (lambda d: collections.OrderedDict(b=d["b"] * 2), lambda n: (collections.OrderedDict(b=matrix(n)),)),
    "list": (lambda xs: [x + 1 for x in xs], lambda n: ([matrix(n), matrix(n + 1)],)),
    "nested": (lambda t: (t[0][0]["k"].relu(), [t[1], None]), lambda n: (([{"k": matrix(n)}], matrix(n)),)),
    "namedtuple": (lambda p: Pair(p.right, p.left * 2), lambda n: (Pair(matrix(n), matrix(n + 2)),)),
    "dataclass": (lambda b: Box(b.data * b.scale, b.scale + 1, b.tag), lambda n: (Box(matrix(n)),)),
    "frozen": (lambda b: Frozen(b.data + 1), lambda n: (Frozen(matrix(n)),)),
    "deque": (lambda xs: collections.deque([sum(xs)]), lambda n: (collections.deque([matrix(n)] * 2),)),
    "defaultdict": (lambda d: d["a"] + d["a"], lambda n: (collections.defaultdict(list, a=matrix(n)),)),
    "size": (lambda x, s: x.reshape(s).sum(0), lambda n: (matrix(n), torch.Size([n * 4]))),
    "integers": (lambda x, n: (x * n, torch.zeros(n), x[:n], n + 1, x.shape[0] * n), lambda n: (matrix(n), n)),
    "two_integers": (lambda x, a, b: x[a:b] + (b - a), lambda n: (matrix(9), 1, n)),
    "input_back": (lambda x, y: (x, y, x), lambda n: (matrix(n), matrix(n))),
    "nothing": (lambda x: None, lambda n: (matrix(n),)),
    "no_tensors": (lambda n: n * 2 + 1, lambda n: (n,)),
    "constants_back": (lambda x: (x.exp(), None, True, "text", 2.5, 7, x.dtype), lambda n: (matrix(n),)),
    "size_back": (lambda x: (x.shape[0], x.numel(), x.shape, x.shape[1] / 2), lambda n: (matrix(n),)),
    "item_back": (lambda x: (x.amax().item(), x.long().sum().item(), (x > 9).any().item()), lambda n: (matrix(n),)),
    "kept_dim": (lambda x, keep: x.sum(0, keepdim=keep), lambda n: (matrix(n), n % 2 == 0)),
    "enum": (lambda x, c: x + 1 if c is Color.RED else x - 1, lambda n: (matrix(n), Color(1 + n % 2))),
    "dtype": (lambda x, d: x.to(d), lambda n: (matrix(n), torch.float64 if n % 2 else torch.bfloat16)),
    "string": (lambda x, how: x.relu() if how == "relu" else x.exp(), lambda n: (matrix(n), "relu" if n % 2 else "exp")),
    "slice": (lambda x, s: x[s], lambda n: (matrix(9), slice(None, None, 2))),
    "view": (lambda x: (x.t(), x[1:], x.view(-1)), lambda n: (matrix(n),)),
    "text_of_size": (lambda x: {f"{x.shape[0]}": x, "n": str(x.shape[0])}, lambda n: (matrix(n),)),
    "size_as_key": (lambda x: x * {2: 5, 3: 7}.get(x.shape[0], 1), lambda n: (matrix(n),)),
    "isinstance": (lambda x, n: x * n if isinstance(n, int) else x - n, lambda n: (matrix(n), n)),
}
VERSIONED = {"kept_dim": 2, "enum": 2, "dtype": 2, "string": 2, "text_of_size": 3, "size_as_key": 3}


@pytest.mark.parametrize("name", TREES)
def test_trees(name):
    fn, make = TREES[name]
    check(escapement.jit(fn), fn, [make(n) for n in (5, 2, 3, 5)], VERSIONED.get(name, 1))


def test_an_input_comes_back_as_the_same_object():
    jitted = escapement.jit(lambda x, xs, d: (x, xs, xs[0], d))
    for n in (3, 4, 3):
        x, xs, d = matrix(n), [matrix(n)], {"a": 1}
        a, b, c, e = jitted(x, xs, d)
        assert a is x and b is xs and c is xs[0] and e is d
    assert jitted.info()["recordings"] == 1


def test_whether_two_arguments_are_one_object():
    jitted = escapement.jit(lambda x, y: (x + 1, y is x))
    a, b = matrix(3), matrix(3)
    for args in ((a, b), (a, a), (b, a), (b, b)) * 2:
        equal(jitted(*args), jitted.__wrapped__(*args))
    assert jitted.info()["recordings"] == 2


def append(xs, x):
    xs.append(x * 2)
    xs[0] = x
    return xs[-1] + 1


def fill(d, x):
    d["new"] = x + 1
    d.pop("old", None)
    return x


def set_field(box, x):
    box.data = x * box.scale
    box.tag = "b"


def replace_nested(t, x):
    t[0]["list"].insert(0, x.relu())
    return t


MUTATIONS = {"list": (append, lambda: [matrix(1)]), "dict": (fill, lambda: {"old": matrix(1), "kept": matrix(2)}),
             "dataclass": (set_field, lambda: Box(matrix(2))), "slots": (set_field, lambda: Slots(matrix(2))),
             "nested": (replace_nested, lambda: ({"list": [matrix(3)]}, 4))}


@pytest.mark.parametrize("name", MUTATIONS)
def test_changed_containers_are_the_callers(name):
    fn, make = MUTATIONS[name]
    check(escapement.jit(fn), fn, [(make(), matrix(n)) for n in (3, 5, 2)], 1)


@torch.no_grad()
def test_served_calls_do_not_reach_python(monkeypatch):
    """At sizes 0, 1 and primes: one recording, every later call a hit that launches its kernel, `__call__` never asked."""
    fn = lambda x, y, n: (torch.relu(x * 2 + y) * n, x + n)  # noqa: E731
    compiled = escapement.jit(fn)
    for n in (5, 7):   # one recording, and the row that serves from then on
        compiled(torch.randn(n, 3), torch.randn(3), n=n)
    escapement.reset()

    def unreachable(*args):
        raise AssertionError("the call reached Python")

    monkeypatch.setattr(type(compiled), "_call", unreachable, raising=False)
    sizes = [(0, 3), (1, 1), (1, 7), (5, 0), (2, 13), (31, 2), (64, 127)]
    for rows, columns in sizes:
        x, y = torch.randn(rows, columns), torch.randn(columns)
        for ours, eager in zip(compiled(x, y, n=rows), fn(x, y, rows), strict=True):
            assert torch.equal(ours, eager)
    seen = escapement.stats()
    assert seen["hits"] == len(sizes) and seen["launches"] >= len(sizes) and not seen.get("recordings") and not seen.get("specialisations")
    with torch.autocast("cpu"), pytest.raises(AssertionError, match="reached Python"):
        compiled(torch.randn(2, 2), torch.randn(2), n=1)
    with pytest.raises(AssertionError, match="reached Python"):   # a float is part of the key, so a recording
        compiled(torch.randn(2, 2), torch.randn(2), n=1.5)


def test_integers_are_one_version_and_floats_at_most_three():
    jitted = escapement.jit(lambda x, n, f: x[:n] * f + n)
    calls = [(matrix(9), n, f) for n in (1, 3, 0, 8) for f in (2.5, 0.1, -0.0, 0.0, 3.0, float("inf"), float("nan"))]
    info = check(jitted, jitted.__wrapped__, calls)
    assert info["keys"] == 4   # two floats as constants, NaN, and all others as a run-time value
    assert info["recordings"] == 4 and info["versions"] == 4


def test_zero_and_minus_zero_are_two_values():
    jitted = escapement.jit(lambda x, f: torch.full((1,), f).reciprocal() + x * 0)
    check(jitted, jitted.__wrapped__, [(torch.ones(1), f) for f in (0.0, -0.0, 0.0, -0.0)])


def test_one_and_true_are_two_values():
    jitted = escapement.jit(lambda x, f: x * 2 if f is True else x * 3)
    check(jitted, jitted.__wrapped__, [(matrix(2), v) for v in (1, True, 1, True, 1.0)])


def test_a_program_that_must_know_an_integer():
    jitted = escapement.jit(lambda x, n: x * (1 << n) + (n & 3))
    for n in range(12):
        equal(jitted(matrix(3), n), jitted.__wrapped__(matrix(3), n))
    info = jitted.info()
    assert sum(info["eager"].values()) + sum(sum(r["fallbacks"].values()) for r in info["regions"]) >= 12 - 8 - 1


UNKNOWN = {"object": object, "sparse": lambda: torch.eye(2).to_sparse(), "set": lambda: {1, 2},
           "iterator": lambda: iter([1]),
           "module": lambda: torch.nn.Linear(2, 2), "function": lambda: lambda x: x,
           "subclass": lambda: torch.ones(2).as_subclass(Special)}


class Special(torch.Tensor):
    pass


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_arguments_run_eagerly_and_are_counted(name):
    jitted, value = escapement.jit(lambda x, v: (x * 2, type(v).__name__)), UNKNOWN[name]()
    equal(jitted(matrix(2), value), jitted.__wrapped__(matrix(2), value))
    info = jitted.info()
    assert info["eager"] == {"unsupported_argument": 1} or info["regions"][0]["fallbacks"] == {"unsupported_input": 1}
    assert escapement.stats()["jit"]["eager"] == info["eager"]


def test_the_number_of_keys_is_bounded():
    jitted = escapement.jit(lambda x, name: x * len(name))
    for n in range(70):
        equal(jitted(matrix(2), "a" * n), matrix(2) * n)
    info = jitted.info()
    assert info["keys"] == 64 and info["eager"] == {"too_many_keys": 6}


@pytest.mark.parametrize("n", [2**70, -2**70, 2**63])
def test_integers_of_more_than_64_bits(n):
    jitted = escapement.jit(lambda x, n: (x * 2, n // 3))
    check(jitted, jitted.__wrapped__, [(matrix(2), 5), (matrix(2), n), (matrix(3), 7), (matrix(3), n)], 2)


def compared(n, other):
    return n < other, n <= other, n == other, n != other, n > other, n >= other, other < n, other <= n, other == n, other != n, other > n, other >= n


@pytest.mark.parametrize("other", [2**63, 2**64 - 4, 2**90, -2**63 - 1, -2**90, 2**63 - 1])
def test_sizes_compared_with_integers_of_more_than_64_bits(other):
    jitted = escapement.jit(lambda x: (x * 2, *compared(x.shape[0], other), *compared(x.nonzero().shape[0], other)))
    check(jitted, jitted.__wrapped__, [(matrix(n),) for n in (2, 3, 0, 1)], 1)


def test_an_unknown_result_is_eagers():
    class Thing:
        def __init__(self, x):
            self.x, self.lock = x, threading.Lock()

    jitted = escapement.jit(lambda x: Thing(x + 1))
    for _ in range(3):
        thing = jitted(matrix(2))
        assert type(thing) is Thing and torch.equal(thing.x, matrix(2) + 1) and "Wrapper" not in repr(type(thing.x))
    assert jitted.info()["eager"] == {"unsupported_result": 3}


def test_strict_makes_them_errors():
    with pytest.raises(escapement.EscapementError, match="unsupported_argument"):
        escapement.jit(lambda x, v: x, strict=True)(matrix(2), object())


# --- sizes, branches, values

def test_sizes_stay_symbols_through_python_arithmetic():
    def fn(x):
        half = x.shape[0] // 2
        y = torch.zeros(half + 1, x.size(1) * 2)
        return x.view(-1)[: half * x.shape[1]] * half, y + x.shape[0], x[half:], torch.arange(x.shape[0] % 3 + 1)

    check(escapement.jit(fn), fn, [(matrix(n, m),) for n, m in ((6, 4), (9, 3), (2, 5), (7, 7), (30, 2))], 1)


def test_a_branch_on_a_size_is_a_version_each_way_and_its_line_is_reported():
    def fn(x):
        if x.shape[0] > 4:
            return x + 1
        return x - 1, x.shape[0]

    jitted = escapement.jit(fn)
    check(jitted, fn, [(matrix(n),) for n in (6, 3, 9, 1, 5, 4)], 2)
    text, line = str(escapement.explain(jitted)(matrix(2))), fn.__code__.co_firstlineno + 1
    assert f"test_jit.py:{line} in" in text and "guard" in text and "x.size(0)" in text


@pytest.mark.parametrize("fn", [
    lambda x: x + 1 if x.sum() > 0 else x - 1,
    lambda x: x * x.sum().item(),
    lambda x: x[: int((x > 0).sum())],
    lambda x: x * x.max().item() if x.min().item() < -0.5 else x,
    lambda x: torch.zeros((x > 0).sum().item()),
], ids=["branch", "item", "size", "float_branch", "zeros"])
def test_values_read_by_the_host(fn):
    jitted = escapement.jit(fn)
    for seed in range(6):
        x = matrix(4, seed=seed) + (seed % 3 - 1) * 2
        equal(jitted(x), fn(x))
    info = jitted.info()
    assert info["recordings"] + sum(sum(r["fallbacks"].values()) for r in info["regions"]) <= 6


MEMORY_READS = {"tolist": lambda x: x + x.tolist()[0][0], "numpy": lambda x: x * float(x.numpy().max()),
                "numpy_of_result": lambda x: (x * 2).numpy().sum().item()}


@pytest.mark.parametrize("fn", MEMORY_READS.values(), ids=MEMORY_READS)
def test_memory_read_by_the_host_is_never_baked(fn):
    jitted = escapement.jit(fn)
    for seed in range(4):
        equal(jitted(matrix(3, seed=seed)), fn(matrix(3, seed=seed)))
    assert jitted.info()["regions"][0]["fallbacks"].keys() & {"storage_access", "result_read"} or jitted.info()["eager"]


def test_a_branch_after_a_write_is_right():
    def fn(x):
        x.add_(1)
        return x * 2 if x.sum() > 0 else x * 3

    jitted = escapement.jit(fn)
    for seed in range(5):
        a, b = matrix(3, seed=seed) - seed % 2 * 5, matrix(3, seed=seed) - seed % 2 * 5
        equal(jitted(a), fn(b))
        equal(a, b)
    (region,) = jitted.info()["regions"]
    assert region["fallbacks"] == {} and [side["hits"] for side in region["versions"][0]["exit"]["sides"]] == [2, 1]   # test_trace_tree.py


# --- memory

def test_in_place_and_aliased_arguments():
    def fn(x, y):
        x.add_(1)
        y.mul_(2)
        return x + y

    jitted = escapement.jit(fn)
    apart, same = lambda: (matrix(4), matrix(4, seed=1)), lambda: 2 * (matrix(4),)
    overlapping = lambda: (lambda b: (b[:3], b[1:]))(matrix(4))  # noqa: E731
    view = lambda: (lambda b: (b, b.view(-1).view(4, 4)))(matrix(4))  # noqa: E731
    for make in (apart, same, overlapping, view) * 2:
        ours, host = make(), make()
        equal(jitted(*ours), fn(*host))
        equal(ours, host)


def test_random_numbers_are_eagers():
    jitted = escapement.jit(lambda x: (F.dropout(x, 0.5), torch.randn(x.shape[0])))
    for n in (3, 6, 2):
        torch.manual_seed(n)
        ours = jitted(matrix(n))
        torch.manual_seed(n)
        equal(ours, jitted.__wrapped__(matrix(n)))
    assert jitted.info()["recordings"] == 1


# --- errors

def test_the_programs_own_errors():
    jitted = escapement.jit(lambda x, y: x @ y)
    for shapes in (((2, 3), (4, 5)), ((2, 3), (3, 5)), ((2, 3), (4, 5))):
        x, y = (torch.ones(shape) for shape in shapes)
        try:
            want = x @ y
        except RuntimeError as error:
            with pytest.raises(RuntimeError) as ours:
                jitted(x, y)
            assert str(ours.value).splitlines()[0] == str(error).splitlines()[0]
        else:
            equal(jitted(x, y), want)


def test_an_error_that_only_symbols_bring_is_not_seen():
    jitted = escapement.jit(lambda x: x * math.ldexp(1.0, x.shape[0]))   # C code that takes nothing but an int
    check_all = [(matrix(n),) for n in (3, 4, 5)]
    for args in check_all:
        equal(jitted(*args), jitted.__wrapped__(*args))
    assert jitted.info()["eager"] == {"recording_raised": 3}


def test_after_a_write_such_an_error_is_raised_with_a_note():
    def fn(x):
        x.add_(1)
        return x * math.ldexp(1.0, x.shape[0])

    with torch.no_grad(), pytest.raises(TypeError) as error:
        escapement.jit(fn)(matrix(3).requires_grad_())   # is not put back
    assert any("being recorded" in note for note in getattr(error.value, "__notes__", ["being recorded"]))


# --- torch's own state

def test_ambient_state_is_a_key():
    fn = lambda x, w: (x @ w, torch.zeros(x.shape[0]), torch.is_grad_enabled())  # noqa: E731
    jitted = escapement.jit(fn)
    x, w = matrix(4), matrix(4, seed=3)
    modes = [torch.no_grad, torch.inference_mode, torch.enable_grad, lambda: torch.autocast("cpu", torch.bfloat16),
             lambda: torch.autocast("cpu", torch.float16)]
    for mode in modes * 2:
        with mode():
            equal(jitted(x, w), fn(x, w))
    torch.set_default_dtype(torch.float64)
    try:
        equal(jitted(x, w), fn(x, w))
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.inference_mode():
        assert jitted(x, w)[0].is_inference()
    assert jitted.info()["recordings"] == 6 and not jitted.info()["eager"]


def test_gradients_run_eagerly_and_are_counted():
    net, x = torch.nn.Linear(4, 4), matrix(3).requires_grad_()
    held = torch.ones(4, requires_grad=True)
    by_argument, by_module, by_closure = map(escapement.jit, (lambda x: x * 2, net, lambda x: x * held))
    for jitted, arg in ((by_argument, x), (by_module, matrix(3)), (by_closure, matrix(3))):
        for _ in range(2):
            jitted(arg).sum().backward()
        assert jitted.info()["eager"] == {"gradient": 2} and jitted.info()["recordings"] == 0
        with torch.no_grad():
            assert not jitted(arg).requires_grad
        assert jitted.info()["recordings"] == 1
    assert torch.equal(x.grad, torch.full((3, 4), 4.0)) and net.weight.grad is not None and held.grad is not None


def inner_gradients(x):
    with torch.enable_grad():
        return x.detach().requires_grad_() * 2


def marks_its_input(x):
    x.requires_grad_()
    return x.detach() * 2


@pytest.mark.parametrize("fn", [inner_gradients, marks_its_input])
def test_a_program_that_switches_gradients_on(fn):
    jitted = escapement.jit(fn)
    with torch.no_grad():
        for _ in range(3):
            ours, host = matrix(2), matrix(2)
            equal(jitted(ours), fn(host))
            assert ours.requires_grad == host.requires_grad
    info = jitted.info()
    assert [info["eager"], *(region["fallbacks"] for region in info["regions"])].count({"gradient": 3}) == 1   # by the entry, or by the core


def test_requires_grad_switched_on_later():
    net, held = torch.nn.Linear(4, 4).requires_grad_(False), torch.ones(4)
    for jitted, parameter in ((escapement.jit(net), net.weight), (escapement.jit(lambda x: x * held), held)):
        assert not jitted(matrix(2)).requires_grad and not jitted(matrix(3)).requires_grad
        parameter.requires_grad_(True)
        assert jitted(matrix(2)).requires_grad
        assert jitted.info()["recordings"] == 1 and jitted.info()["eager"] == {"gradient": 1}


def test_modes_and_transforms_see_the_program():
    jitted = escapement.jit(lambda x: x * 2 + torch.ones(4))
    x = matrix(3)
    jitted(x), jitted(x)
    with torch.device("meta"):
        with pytest.raises(RuntimeError):
            jitted(x)
    seen = []

    class Spy(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Spy():
        equal(jitted(x), jitted.__wrapped__(x))
    assert len(seen) >= 4
    equal(torch.vmap(jitted)(x), torch.vmap(jitted.__wrapped__)(x))
    equal(torch.func.jvp(jitted, (x,), (x,)), torch.func.jvp(jitted.__wrapped__, (x,), (x,)))
    assert jitted.info()["recordings"] == 1 and jitted.info()["eager"]["torch_mode"] == 4


def test_other_tracers_see_the_program():
    jitted, net = escapement.jit(lambda x: x * 2 + 1), escapement.jit(torch.nn.Linear(4, 4).requires_grad_(False))
    fn = lambda x: net(jitted(x)).relu()  # noqa: E731
    x, compiled = matrix(3), torch.compile(fn, backend="eager", fullgraph=True)
    with torch.no_grad():
        for n in (3, 4):
            fn(matrix(n))
            equal(compiled(matrix(n)), fn(matrix(n)))
        before = jitted.info()["regions"][0]["versions"][0]["hits"]
        traced = torch.jit.trace(fn, x, check_trace=False)
        equal(traced(matrix(5)), fn(matrix(5)))
        graph = torch.fx.experimental.proxy_tensor.make_fx(fn)(x)
        equal(graph(x), fn(x))
    info = jitted.info()
    assert info["regions"][0]["versions"][0]["hits"] == before + 2 and info["recordings"] == 1
    assert info["eager"]["torch_mode"] >= 2


def test_one_jitted_function_inside_another():
    inner = escapement.jit(lambda x: x.relu() * 2)
    outer = escapement.jit(lambda x: inner(x) + inner(x + 1))
    check(outer, lambda x: x.relu() * 2 + (x + 1).relu() * 2, [(matrix(n),) for n in (3, 5, 2)], 1)
    assert inner.info()["recordings"] == 0   # it is part of the other's recording


# --- check=

def test_check_finds_a_broken_contract(monkeypatch):
    monkeypatch.setattr(colorsys, "factors", [2.0], raising=False)   # a list that a library's module holds: not watched

    class Scaled(torch.nn.Module):
        def forward(self, x):
            return {"y": [x * colorsys.factors[0]]}

    net = Scaled()
    unchecked, checked = escapement.jit(net), escapement.jit(net, check="always")
    for jitted in (unchecked, checked):
        jitted(matrix(2)), jitted(matrix(3))
    colorsys.factors[0] = 3.0
    assert torch.equal(unchecked(matrix(2))["y"][0], matrix(2) * 2)   # the contract: as it was when recorded
    with pytest.raises(ContractError, match=r"result\['y'\]\[0\] differs.*largest difference"):
        checked(matrix(2))
    counters = escapement.stats()["jit"]
    assert counters["checks"] == 2 and counters["check_failures"] == 1


@pytest.mark.parametrize("check, checks", [("first", 1), ("always", 5), (3, 3), (0, 0), (None, 0)])
def test_how_often_is_checked(check, checks):
    jitted = escapement.jit(lambda x: x * 2, check=check)
    for n in range(1 + 5):
        equal(jitted(matrix(n)), matrix(n) * 2)
    assert jitted.info()["checks"] == checks and jitted.info()["recordings"] == 1


def test_check_undoes_what_the_function_did():
    def make():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))

    ours, host = make(), make()

    def fn(net):
        return lambda x, d: (net(x.mul_(2)), d.update(k=x + 1))[0]

    jitted = escapement.jit(fn(ours), check="always")
    with torch.no_grad():
        for n in (3, 5, 4):
            a, b, c, d = matrix(n), matrix(n), {}, {}
            torch.manual_seed(n)
            got = jitted(a, c)
            after = torch.get_rng_state()
            torch.manual_seed(n)
            equal(got, fn(host)(b, d))
            assert torch.equal(after, torch.get_rng_state())
            equal((a, c, dict(ours.named_buffers())), (b, d, dict(host.named_buffers())))
    assert jitted.info()["checks"] == 2


# --- the object

def test_wrapping_and_attributes():
    def fn(x, scale: float = 2.0):
        """Doc."""
        return x * scale

    jitted = escapement.jit(fn)
    assert (jitted.__name__, jitted.__doc__, jitted.__wrapped__) == ("fn", "Doc.", fn)
    assert "escapement.jit" in repr(jitted)
    assert inspect.signature(jitted) == inspect.signature(fn)
    net = torch.nn.Sequential()
    net.linear = torch.nn.Linear(4, 4)
    module = escapement.jit(net)
    assert module.linear is net.linear and len(list(module.parameters())) == len(list(net.parameters()))
    module.extra = 5
    assert net.extra == 5
    module.eval()
    assert not net.training
    with pytest.raises(AttributeError):
        module.missing


def test_methods_and_decorators():
    class Model:
        def __init__(self, factor):
            self.factor = torch.tensor(factor)

        @escapement.jit
        def scale(self, x):
            return x * self.factor

        @escapement.jit(check="first")
        def shift(self, x, by=1):
            return x + self.factor + by

    a, b = Model(2.0), Model(3.0)
    for n in (2, 3):
        equal((a.scale(matrix(n)), b.scale(matrix(n)), a.shift(matrix(n), by=2)),
              (matrix(n) * 2, matrix(n) * 3, matrix(n) + 4))
    assert a.scale.info()["recordings"] == 1 and a.scale is not b.scale
    a.factor = torch.tensor(7.0)
    equal(a.scale(matrix(2)), matrix(2) * 7)


def test_partial_builtin_and_callable_object():
    class Callable:
        def __call__(self, x):
            return x + 1

    for fn in (functools.partial(torch.add, alpha=2), torch.add):
        check(escapement.jit(fn), fn, [(matrix(n), matrix(n)) for n in (2, 3)], 1)
    check(escapement.jit(Callable()), Callable(), [(matrix(2),), (matrix(3),)], 1)


def test_clear_and_info():
    jitted = escapement.jit(lambda x: x * 2)
    jitted(matrix(2)), jitted(matrix(3))
    info = jitted.info()
    assert (info["keys"], info["recordings"], info["versions"], info["mode"]) == (1, 1, 1, "call")
    assert info["regions"][0]["versions"][0]["hits"] == 1
    jitted.clear()
    assert jitted.info()["keys"] == 0
    jitted(matrix(2))
    assert jitted.info()["recordings"] == 1


@pytest.mark.parametrize("arguments, error, words", [
    (dict(mode="replay", dims=["n"]), OptionError, "dims="), (dict(mode="other"), OptionError, "mode='other'"),
    (dict(dims={"y": 3}), escapement.DimError, "which is no argument"), (dict(check="sometimes"), OptionError, "check="),
    (dict(check=True), OptionError, "check="),
    (dict(strikt=True), OptionError, "did you mean 'strict'"), (dict(fn=3), TypeError, "function or module")])
def test_bad_arguments_of_jit(arguments, error, words):
    with pytest.raises(error, match=words.replace("(", r"\(")):
        escapement.jit(**{"fn": lambda x: x, **arguments})


def test_disabled(monkeypatch):
    monkeypatch.setenv("ESCAPEMENT_DISABLE", "1")
    jitted = escapement.jit(lambda x: x * 2)
    equal(jitted(matrix(2)), matrix(2) * 2)
    assert jitted.info()["eager"] == {"disabled": 1} and jitted.info()["recordings"] == 0


def test_threads():
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    jitted, wrong = escapement.jit(net), []
    start = threading.Barrier(6)

    def work(seed):
        start.wait()
        with torch.no_grad():
            for n in range(1, 30):
                x = matrix(n % 7 + 1, seed=seed)
                if not torch.allclose(jitted(x), net(x), atol=1e-6):
                    wrong.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong
    info = jitted.info()
    assert info["keys"] == 1 and info["recordings"] == 1


def test_explain_names_the_users_arguments_and_reasons():
    def fn(batch, scale):
        return batch["x"] * scale + batch["y"][0]

    jitted = escapement.jit(fn)
    report = escapement.explain(jitted)({"x": matrix(3), "y": [matrix(3)]}, 2)
    text = str(report)
    assert "function test_explain_names_the_users_arguments_and_reasons.<locals>.fn (test_jit.py:" in text
    assert "batch['x'].size(0)" in text and "batch['y'][0].size(0)" in text and ": scale" in text
    assert f"test_jit.py:{fn.__code__.co_firstlineno + 1}" in text
    text = str(escapement.explain(jitted)({"x": matrix(3).requires_grad_(), "y": [matrix(3)]}, 2))
    assert "eager: gradients are wanted" in text and "(gradient, 1 calls)" in text


def test_a_miss_of_a_value_names_the_relation_and_the_line():
    def fn(x):
        if int(x.sum()) == 4:
            return x * 2
        return x - 1

    ours = escapement.jit(fn)
    with torch.no_grad():
        for value in (1, 1, 2, 1):
            ours(torch.full((4,), value))
    (miss,) = ours.info()["regions"][0]["misses"]
    assert "a value that the program reads: expected" in miss and "== 4" in miss and "test_jit.py" in miss, miss
