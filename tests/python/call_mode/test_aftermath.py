"""What a function that is recorded leaves behind, and how often it runs: what it keeps of sizes are ints, what it keeps of arguments are the caller's own, and
what it does to Python is done once, whatever it returns or raises (tracer/aftermath.py)."""

import collections
import datetime
import fractions
import functools
import gc
import itertools
import math
import pathlib
import queue
import random
import types

import numpy as np
import pytest
import torch

import escapement
from escapement.tracer.results import is_recorded

Named = collections.namedtuple("Named", "shape note")


class Slotted:
    __slots__ = ("kept",)


class Scaled(torch.nn.Module):
    def __init__(self, weight, sizes):
        super().__init__()
        self.weight, self.sizes = torch.nn.Parameter(weight), sizes
        self.register_buffer("kept", weight + 1)


class Cache(dict):
    """Holds things, and has attributes."""


class Proxy:
    @property
    def __class__(self):
        raise RuntimeError("working outside of its context")


class Histogram(dict):
    def update(self, key, n=1):
        self[key] = self.get(key, 0) + n


class Picky(list):
    def __setitem__(self, at, value):
        raise TypeError("append only")


class Refused(Exception):
    pass


def default_list(x, log=[]):   # noqa: B006
    log.append(x.shape)
    return log


def keyword_default(x, *, log={}):   # noqa: B006
    log["shape"] = x.shape
    return log


def keepers():
    """name -> a function that keeps sizes of its argument in a holder, and gives what it holds."""
    slotted, space, seen, sizes, order = Slotted(), types.SimpleNamespace(), set(), set(), collections.OrderedDict()
    jobs, lines, counter, cell = queue.Queue(), collections.deque(maxlen=3), collections.Counter(), None
    usual, cache = collections.defaultdict(list), Cache()

    def keep_in_cell(x):
        nonlocal cell
        cell = x.shape
        return cell

    def in_class(x):
        Slotted.last = x.shape
        return Slotted.last

    def put(holder, value):
        holder.kept = value
        return holder.kept

    return {
        "size": lambda x: put(space, x.shape), "tuple": lambda x: put(space, (x.shape[0], "a")), "named": lambda x: put(space, Named(x.shape, 3)),
        "slice": lambda x: put(space, slice(0, x.shape[0])), "frozen": lambda x: put(space, frozenset((x.shape[0], 7))),
        "dict": lambda x: put(space, {"a": [x.shape], (x.shape[0], 1): 2}), "slot": lambda x: put(slotted, x.shape), "partial": lambda x: put(space, functools.partial(max, x.shape[0])),
        "set": lambda x: seen.add(tuple(x.shape)) or seen, "set of sizes": lambda x: sizes.add(x.shape[0]) or sizes, "queue": lambda x: jobs.put(x.shape) or list(jobs.queue),
        "deque": lambda x: lines.append(x.shape) or lines, "counter": lambda x: counter.update([x.shape[0], "a"]) or counter, "ordered": lambda x: order.update({x.shape[0]: x.shape}) or order,
        "default dict": lambda x: usual[x.shape[0]].append(x.shape) or usual, "cell": keep_in_cell, "class": in_class, "default": default_list, "keyword": keyword_default,
        "attribute of a dict": lambda x: put(cache, (x.shape, {"a": x.shape[0]})),
    }


KEEPERS = keepers()


def integers(value):
    """All numbers in a structure; none of torch's."""
    if isinstance(value, functools.partial):
        return integers(value.args)
    if isinstance(value, slice):
        return integers((value.start, value.stop))
    if isinstance(value, dict):
        return integers([*value.items()])
    if isinstance(value, (tuple, list, set, frozenset, collections.deque)):
        return [found for part in value for found in integers(part)]
    assert type(value) in (int, str), type(value)
    return [value]


@pytest.mark.parametrize("name", KEEPERS)
def test_sizes_that_are_kept_are_integers(name):
    keep, own, kept = KEEPERS[name], keepers()[name], []
    function = escapement.jit(lambda x: (kept.append(keep(x)), x * 2)[1])
    for log in (default_list.__defaults__[0], keyword_default.__kwdefaults__["log"]):
        log.clear()
    expected = []
    for n in (5, 1, 2, 2, 7):
        x = torch.ones(n, 3)
        assert torch.equal(function(x), x * 2)
        expected.append(kept[-1] if name in ("default", "keyword", "class") else own(x))
        assert sorted(map(str, integers(kept[-1]))) == sorted(map(str, integers(expected[-1])))
        for part in kept[-1] if isinstance(kept[-1], (list, collections.deque)) else [kept[-1]]:
            if isinstance(part, torch.Size):
                assert torch.zeros(part).shape == part and torch.zeros(part.numel()).view(part).shape == part


@pytest.mark.parametrize("kind", [collections.Counter, Histogram, collections.OrderedDict])
def test_counts_by_size(kind):
    def count(x, counts):
        counts[x.shape[0]] = counts.get(x.shape[0], 0) + 1
        counts["calls"] = counts.get("calls", 0) + 1
        return x * 2

    counts, expected = kind(), {}
    function = escapement.jit(lambda x: count(x, counts))
    for n in (5, 1, 2, 2):
        function(torch.ones(n, 3))
        count(torch.ones(n, 3), expected)
    assert dict(counts) == expected and [*counts] == [*expected]


def test_a_list_with_ways_of_its_own():
    shapes = Picky()
    function = escapement.jit(lambda x: (shapes.append(x.shape[0]), x * 2)[1])
    for n in (5, 1, 2):
        function(torch.ones(n))
    assert shapes == [5, 1, 2] and integers(list(shapes)) == [5, 1, 2]


RESULTS = {
    "array": lambda x: (x * 2).numpy(), "numpy number": lambda x: x.sum().numpy()[()], "set": lambda x: {x.shape[0], "a"}, "frozenset": lambda x: frozenset((x.shape, 1)),
    "set of tensors": lambda x: {x * 2}, "date": lambda x: datetime.date(2026, 1, 2), "path": lambda x: pathlib.Path("a"), "counter": lambda x: collections.Counter([x.shape[0]]),
    "parameter": lambda x: torch.nn.Parameter(x * 2), "module": lambda x: torch.nn.ReLU(), "keys": lambda x: {"a": x * 2}.keys(), "fraction": lambda x: fractions.Fraction(1, 3),
    "partial": lambda x: functools.partial(max, x.shape[0]), "exception": lambda x: Refused(x.shape), "closure": lambda x: (lambda y: y + x.shape[0]),
    "iterator of numbers": lambda x: iter([1, 2]), "generator of numbers": lambda x: (i for i in (1, 2)),
}


def describe(value):
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (set, frozenset)):
        return sorted(describe(part) for part in value)
    if isinstance(value, torch.Tensor):
        assert not value.requires_grad or isinstance(value, torch.nn.Parameter)
        return str(value.detach().tolist())
    if isinstance(value, functools.partial):
        return integers(value)
    if isinstance(value, Refused):
        return integers(value.args)
    if isinstance(value, types.FunctionType):
        return value(torch.ones(2)).tolist()
    return list(value) if isinstance(value, (types.GeneratorType, type(iter([])))) else str(value)


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("name", RESULTS)
def test_results_without_a_structure_run_the_function_once(name, writes):
    calls = []

    def program(x):
        calls.append(random.random())
        if writes:
            x.add_(1)
        return RESULTS[name](x)

    function = escapement.jit(program)
    for n in (5, 1, 2, 2, 0):
        random.seed(n)
        np.random.seed(n)
        ours, given, theirs = torch.ones(n), torch.ones(n), []
        result = function(ours)
        after = random.random()
        random.seed(n)
        np.random.seed(n)
        theirs = program(given)
        assert describe(result) == describe(theirs) and type(result) is type(theirs)
        assert torch.equal(ours, given) and random.random() == after
        assert len(calls) == 2 and calls[0] == calls[1]
        calls.clear()


def test_many_sizes_are_kept():
    kept = []

    def program(x):
        for i in range(200):
            kept.append((x.shape[0] + i, [x.shape[0] * 2 + i]))
        return x * 2

    function = escapement.jit(program)
    for n in (5, 1, 2, 2):
        function(torch.ones(n))
    assert integers(kept) == [number for n in (5, 1, 2, 2) for i in range(200) for number in (n + i, n * 2 + i)]


def test_a_module_as_a_result():
    calls = []
    function = escapement.jit(lambda x: (calls.append(1), Scaled(x * 2, x.shape))[1])
    for n in (5, 1, 2):
        module, expected = function(torch.ones(n)), Scaled(torch.ones(n) * 2, torch.Size((n,)))
        assert integers(module.sizes) == [n] and isinstance(module.weight, torch.nn.Parameter) and module.weight.requires_grad
        for name, tensor in module.state_dict(keep_vars=True).items():
            assert torch.equal(tensor, getattr(expected, name)) and not is_recorded(tensor)
        module.weight.sum().backward()
        assert torch.equal(module.weight.grad, torch.ones(n)) and len(calls) == 1
        calls.clear()


def test_what_a_result_without_a_structure_did_to_arguments():
    def program(x, taken, space):
        taken.append(x * 2)
        space["n"] = x.shape[0]
        return {x.shape[0]}

    function = escapement.jit(program)
    for n in (5, 1, 2, 2):
        taken, space = [], {}
        assert function(torch.ones(n), taken, space) == {n} and integers(space) == ["n", n]
        assert len(taken) == 1 and torch.equal(taken[0], torch.full((n,), 2.0)) and not is_recorded(taken[0])


def test_what_holds_tensors_out_of_reach_is_made_by_a_second_run():
    for make in (lambda x: (x * k for k in (1, 2)), lambda x: map(torch.neg, [x, x * 2]), lambda x: itertools.chain([x * 3]),
                 lambda x: (lambda y: {"a": y, "b": (y * k for k in (1, 2))})(x * 3)["b"], lambda x: (lambda y: iter([y, *(y for _ in range(2))]))(x * 2)):
        function = escapement.jit(make)
        for n in (5, 1, 2):
            x = torch.rand(n)
            assert all(map(torch.equal, function(x), make(x)))


def test_a_program_that_raises_runs_once():
    def make():
        jobs = queue.Queue()
        for i in range(20):
            jobs.put(i)

        def program(x):
            job, noise = jobs.get(), random.random()
            if x.shape[0] == 2:
                raise Refused(f"job {job} refused")
            return x * job + noise
        return program

    def outcomes(function):
        random.seed(0)
        for n in (5, 2, 3, 2, 4):
            try:
                yield function(torch.ones(n))[0].item()
            except Refused as error:
                yield str(error)
        yield random.random()

    assert [*outcomes(escapement.jit(make()))] == [*outcomes(make())]


def test_draws_are_not_made_twice_where_a_size_must_be_an_integer():
    draws = np.random.default_rng(3), random.Random(4), np.random.RandomState(5)

    def program(x):
        found = random.random(), np.random.rand(), draws[0].random(), draws[1].random(), draws[2].rand()
        return x * math.ldexp(1.0, x.shape[0]), found

    function = escapement.jit(program)
    for n in (5, 1, 2, 2):
        random.seed(n)
        np.random.seed(n)
        draws = np.random.default_rng(3), random.Random(4), np.random.RandomState(5)
        result, ours = function(torch.ones(n))
        random.seed(n)
        np.random.seed(n)
        draws = np.random.default_rng(3), random.Random(4), np.random.RandomState(5)
        expected, theirs = program(torch.ones(n))
        assert torch.equal(result, expected) and ours == theirs


def test_a_second_run_finds_integers_of_the_first():
    seen = []

    def program(x):
        seen.append((x.shape[0], x.shape))
        return x * math.ldexp(1.0, x.shape[0])

    function = escapement.jit(program)
    for n in (5, 1, 2):
        assert torch.equal(function(torch.ones(n)), torch.full((n,), 2.0**n))
    assert set(integers(seen)) == {5, 1, 2}


def test_a_second_run_finds_the_callers_tensors_of_the_first():
    seen = []
    function = escapement.jit(lambda x: (seen.append(x), x * math.ldexp(1.0, x.shape[0]))[1])
    for n in (5, 1, 2):
        x = torch.ones(n)
        function(x)
        assert all(kept is x for kept in seen)
        seen.clear()


def test_our_own_refusal_is_not_the_programs_error():
    calls = []

    def program(x):
        calls.append(1)
        with torch.enable_grad():
            weight = torch.ones(3, requires_grad=True)
            return torch.autograd.grad((x * weight).sum(), weight)[0]

    function = escapement.jit(program)
    for n in (5, 1, 2, 2):
        x = torch.rand(n, 3)
        with torch.no_grad():
            torch.testing.assert_close(function(x), x.sum(0))


ABSENT = Proxy()   # as a web framework's request is, outside of one


def test_an_object_that_says_nothing_of_its_class():
    holder = types.SimpleNamespace(proxy=Proxy())
    for keeps in ({}, {"a": Proxy()}, [Proxy(), 2], (Proxy(),), {1, ABSENT}, collections.deque([Proxy()]), ABSENT, holder):
        function = escapement.jit(lambda x: (ABSENT, {x.shape[0]}, keeps, holder.proxy))
        for n in (5, 1, 2):
            proxy, sizes, other, _ = function(torch.ones(n))
            assert type(proxy) is Proxy and integers(sizes) == [n] and other is keeps
        given = escapement.jit(lambda x, keeps: (x * 2, keeps))
        for n in (5, 1, 2):
            result, other = given(torch.ones(n), keeps)
            assert torch.equal(result, torch.full((n,), 2.0)) and other is keeps
        used = escapement.jit(lambda x: x * 2 if keeps is not None and ABSENT is not None and holder.proxy is not None else x)
        for n in (5, 1, 2):
            assert torch.equal(used(torch.ones(n)), torch.full((n,), 2.0))
        assert used.info()["eager"] == {} and used.info()["recordings"] <= 2
        with pytest.raises(RuntimeError, match="outside of its context"):
            escapement.jit(lambda x: x * 2 if isinstance(ABSENT, dict) else x)(torch.ones(3))


def test_an_error_carries_sizes_as_integers():
    def program(x, writes):
        if writes:
            x.add_(1)
        error = Refused("too small", x.shape)
        error.shape = x.shape
        raise error

    function = escapement.jit(program)
    for writes in (False, True):
        for n in (2, 1, 1, 5):
            with pytest.raises(Refused) as caught:
                function(torch.ones(n, 2), writes)
            assert integers(caught.value.shape) == [n, 2] and integers(caught.value.args) == ["too small", n, 2]
            assert torch.zeros(caught.value.shape).shape == (n, 2)


def test_a_function_that_needs_an_integer_behind_a_write():
    def program(x):
        x.add_(1)
        return x * datetime.timedelta(x.shape[0]).days

    function = escapement.jit(program)
    for n in (5, 1, 2, 2, 5):
        assert torch.equal(function(torch.zeros(n)), program(torch.zeros(n)))


def test_a_function_that_needs_an_integer_behind_what_cannot_be_put_back_fails_once():
    def program(x):
        x.add_(1)
        return x * datetime.timedelta(x.shape[0]).days

    function = escapement.jit(program)
    with torch.no_grad():
        with pytest.raises(TypeError):
            function(torch.zeros(5, requires_grad=True))
        for n in (1, 2, 2, 5):
            assert torch.equal(function(torch.zeros(n, requires_grad=True)), program(torch.zeros(n)))


def test_the_callers_tensor_is_kept_and_no_other():
    last, cached = [None], {}

    def program(x):
        last[0] = x
        cached["x"] = (x, x.shape)
        return x * 2

    function = escapement.jit(program)
    for n in (5, 1, 2, 2, 3):
        x = torch.ones(n, 2)
        function(x)
        assert last[0] is x and cached["x"][0] is x and integers(cached["x"][1]) == [n, 2]


def test_what_is_kept_in_frozen_containers():
    """Where `gc.freeze` has put them the collector does not look."""
    class Holder:
        pass

    sets, ordered, queued, holder, nested = set(), collections.OrderedDict(), collections.deque(), Holder(), {"of": ([], set())}

    def keep(x):
        n = x.shape[0]
        sets.add(n), queued.append(n), nested["of"][0].append([n]), nested["of"][1].add((n, n + 1))
        ordered[n], holder.n = n + 1, (n,)
        return x * 2

    function = escapement.jit(keep)
    gc.collect()
    gc.freeze()
    try:
        for n in (3, 1, 4, 3, 5):
            assert torch.equal(function(torch.ones(n)), torch.ones(n) * 2)
            found = [*sets, *ordered, *ordered.values(), *queued, *holder.n, *itertools.chain(*nested["of"][0], *nested["of"][1])]
            assert {type(each) for each in found} == {int} and queued[-1] == n and holder.n == (n,)
    finally:
        gc.unfreeze()
    assert sets == {1, 3, 4, 5} and nested["of"][1] == {(n, n + 1) for n in sets}


# --- NumPy on sizes

NUMPY = {
    "ceil": lambda x, n: x * np.ceil(n / 2), "range times ceil": lambda x, n: torch.arange(3) * np.ceil(n / 2), "floor": lambda x, n: torch.full((2,), np.floor(n / 2)),
    "text": lambda x, n: str(np.ceil(n / 2)), "narrow": lambda x, n: x * (np.uint8(250) + n), "narrow, on the right": lambda x, n: x * (n + np.int32(7)),
    "array": lambda x, n: torch.from_numpy(np.arange(3) * n), "array of floats": lambda x, n: torch.from_numpy(np.linspace(0, 1, 3) * n), "float64": lambda x, n: x * (np.float64(0.5) * n),
    "int of ceil": lambda x, n: x[: int(np.ceil(n * 0.5))],   # which Python wants to be an int
    "product": lambda x, n: x.reshape(np.prod(x.shape)), "maximum": lambda x, n: x[: np.maximum(n - 1, 1)],
}


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("name", NUMPY)
def test_numpy_on_sizes(name):
    function = escapement.jit(lambda x: NUMPY[name](x, x.shape[0]))
    for n in (5, 7, 1, 2, 30):
        x = torch.ones(n, 2)
        result, expected = function(x), NUMPY[name](x, n)
        if isinstance(expected, str):
            assert result == expected
        else:
            assert result.dtype == expected.dtype and torch.equal(result, expected)
    if name in ("ceil", "float64", "product", "maximum"):
        assert function.info()["recordings"] <= 2
