"""What each call leaves behind, also those that compiled code serves: iterators that it returns, what it put into arguments before an operator raised,
which tensors require gradients, settings of the process."""

import builtins
import gc
import itertools
import operator
import sys
import types
import unittest.mock
import warnings

import numpy as np
import pytest
import torch

import escapement

pytestmark = pytest.mark.usefixtures("fresh")
SIZES = 3, 4, 5, 3, 7, 4


def both(make, call, sizes=SIZES):
    """make() -> (function, what it left); call(function, size, step) at each size, in eager and compiled."""
    ways = []
    for wrap in (escapement.jit, lambda function: function):
        function, left = make()
        function, seen = wrap(function), []
        with torch.no_grad():
            for step, n in enumerate(sizes):
                seen.append((call(function, n, step), left()))
        ways.append((function, seen))
    (jitted, ours), (_, host) = ways
    assert ours == host
    return jitted


# --- iterators over what is made anew

class Pair(tuple):
    """Whose making is its own."""


class Holding:
    def __init__(self, held):
        self.held = held


ITERATORS = {
    "tuple": lambda x: iter((x.shape[0], x.shape[0] * 2)), "size": lambda x: iter(x.shape), "reversed": lambda x: reversed((x.shape[0], 2)),
    "chain": lambda x: itertools.chain((1,), x.shape), "enumerate": lambda x: enumerate(x.shape), "zip": lambda x: zip((x.shape[0],), (x * 2,)),
    "product": lambda x: itertools.product(x.shape, (1, 2)), "of an iterator": lambda x: enumerate(iter((x.shape[0], 1))), "deep": lambda x: iter(((1, (x.shape[0],)),)),
    "frozen": lambda x: iter((frozenset((x.shape[0],)),)), "list": lambda x: iter([x.shape[0], x * 2]), "in a list": lambda x: [(x.shape[0],), iter((x.shape[0],))][1],
    "shared": lambda x: (lambda sizes: iter([sizes, iter(sizes)]))((x.shape[0], 7)), "own": lambda x: iter(Pair((x.shape[0], 2))),
}


def plain(value):
    """As far down as it goes, with the types of numbers."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, (int, float)):
        return type(value), value + 0, torch.full((2,), value).tolist()
    return [plain(item) for item in value]


@pytest.mark.parametrize("name", ITERATORS)
def test_iterators(name):
    both(lambda: (ITERATORS[name], lambda: None), lambda function, n, step: plain(function(torch.ones(n))))


CALLABLES = {
    "methodcaller": (lambda x: operator.methodcaller("add", x.shape[0]), torch.ones(1)), "method": (lambda x: (x.shape[0], 5).count, 5),
    "method of an object": (lambda x: Holding((x.shape[0],)).__getattribute__, "held"),
}


@pytest.mark.parametrize("function, given", CALLABLES.values(), ids=CALLABLES)
def test_callables_in_c(function, given):
    both(lambda: (function, lambda: None), lambda function, n, step: plain(function(torch.ones(n))(given)))


def test_the_function_runs_once_where_all_is_in_reach():
    ran = []

    def function(x):
        ran.append(len(x.shape))
        made = Holding((x.shape[0], [x.shape]))
        return iter([made, {1: (x.shape[0],)}])

    jitted = escapement.jit(function)
    for count, n in enumerate(SIZES, 1):
        made, table = jitted(torch.ones(n))
        assert plain(made.held) == plain((n, [(n,)])) and plain(table[1]) == plain((n,)) and len(ran) == count


# --- what is put into arguments

def test_what_writes_nothing_is_compiled():
    weight = torch.ones(4, 4)

    def function(held, x):
        held.append(x.shape[0])
        return weight[x[:, 0].long()] + x @ weight

    def writing(held, x):
        held.append(x.shape[0])
        return x.add_(1).relu().sum()

    for program in (function, writing):
        jitted = escapement.jit(program)
        for n in SIZES:
            held = []
            jitted(held, torch.ones(n, 4))
            assert held == [n]
        info = jitted.info()
        assert info["recordings"] == 1 and not info["eager"] and sum(version["hits"] for region in info["regions"] for version in region["versions"]) == len(SIZES) - 1


# --- which tensors require gradients

def freezes(net, weight, x):
    net.requires_grad_(False)
    return x * 2


def freezes_each(net, weight, x):
    for parameter in net.parameters():
        parameter.requires_grad = False
    return x * 2


def asks_for_one(net, weight, x):
    weight.requires_grad_()
    return x * 2


def by_size(net, weight, x):
    net.requires_grad_(x.shape[0] > 4)
    return net(x)


def sets_by_size(net, weight, x):
    net.weight.requires_grad = x.shape[0] > 4
    return net(x)


def by_name(net, weight, x):
    setattr(weight, "requires_grad", True)   # noqa: B010
    return x * 2


@pytest.mark.parametrize("function", [freezes, freezes_each, asks_for_one, by_size, sets_by_size, by_name])
@pytest.mark.parametrize("put_back", [False, True])
def test_which_tensors_require_gradients(function, put_back):
    def make():
        torch.manual_seed(0)
        net, weight = torch.nn.Linear(2, 2), torch.zeros(2)

        def left():
            found = [tensor.requires_grad for tensor in (net.weight, net.bias, weight)]
            if put_back:
                net.requires_grad_(True)
                weight.requires_grad_(False)
            return found

        return lambda x: function(net, weight, x), left

    both(make, lambda function, n, step: function(torch.ones(n, 2)).shape)


def test_a_model_that_stays_frozen_is_compiled():
    net = torch.nn.Linear(2, 2)

    @torch.no_grad()
    def function(x):
        net.requires_grad_(False)
        return net(x)

    jitted = escapement.jit(function)
    for n in SIZES:
        jitted(torch.ones(n, 2))
    assert not net.weight.requires_grad and jitted.info()["recordings"] <= 2 and not jitted.info()["eager"]
    net.requires_grad_(True)
    jitted(torch.ones(3, 2))
    assert not net.weight.requires_grad


def test_what_required_a_gradient_does_again_where_the_function_runs_again():
    def make():
        weight = torch.zeros(2)

        def function(x):
            before = weight.requires_grad
            weight.requires_grad_(not before)
            return iter((x.shape[0], before))

        return function, lambda: weight.requires_grad

    both(make, lambda function, n, step: [*function(torch.ones(n))])


# --- settings of the process

def switches_collection(x):
    gc.disable() if gc.isenabled() else gc.enable()
    return x * 2


def adds_a_place(x):
    sys.path.append("nowhere")
    return x * 2


def ignores_warnings(x):
    warnings.filterwarnings("ignore", message=f"number {len(warnings.filters)}")
    return x * 2


def sets_numpy(x):
    np.seterr(over="ignore" if np.geterr()["over"] == "warn" else "warn")
    return x * 2


def counts_for_all(x):
    builtins.number_of_calls = getattr(builtins, "number_of_calls", 0) + 1
    return x * 2


def settings():
    return gc.isenabled(), len(sys.path), len(warnings.filters), np.geterr()["over"], getattr(builtins, "number_of_calls", 0)


@pytest.fixture
def settings_put_back():
    place, collects, numpy = [*sys.path], gc.isenabled(), np.geterr()
    with warnings.catch_warnings():
        yield
    sys.path[:] = place
    gc.enable() if collects else gc.disable()
    np.seterr(**numpy)
    vars(builtins).pop("number_of_calls", None)


@pytest.mark.parametrize("function", [switches_collection, adds_a_place, ignores_warnings, sets_numpy, counts_for_all])
def test_settings_of_the_process(function, settings_put_back):
    jitted, twin = escapement.jit(function), types.FunctionType(function.__code__, globals())
    for n in (*SIZES, 9, 6):
        before = settings()
        twin(torch.ones(n))
        eager = [a - b if isinstance(a, int) else a != b for a, b in zip(settings(), before)]
        before = settings()
        jitted(torch.ones(n))
        ours = [a - b if isinstance(a, int) else a != b for a, b in zip(settings(), before)]
        assert [*map(abs, ours)] == [*map(abs, eager)]


def test_what_stays_as_it_was_is_compiled():
    def function(x):
        with warnings.catch_warnings(), np.errstate(over="ignore"):
            warnings.simplefilter("ignore")
            return x * 2

    jitted = escapement.jit(function)
    for n in SIZES:
        jitted(torch.ones(n))
    assert jitted.info()["recordings"] == 1 and not jitted.info()["eager"]


@pytest.mark.parametrize("kind", [unittest.mock.Mock, unittest.mock.MagicMock])
def test_calls_of_mocks_are_counted(kind):
    def make():
        held = kind(return_value=2.0)

        def function(x):
            held.note(x.shape[0])
            return x * held()

        def left():
            return held.call_count, held.note.call_count, [*map(str, held.mock_calls)], [type(call.args[0]) for call in held.note.call_args_list], type(held.note.call_args[0][0])

        return function, left

    both(make, lambda function, n, step: function(torch.ones(n)).tolist())
