"""Arguments and results that are more than they look: dicts with attributes, parameters, numbers of a recording that leave it inside of something."""

import collections
import copy
import functools

import pytest
import torch

import escapement

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]


def ordered(tag):
    found = collections.OrderedDict(v=2.0)
    if tag:
        found.tag = tag
    return found


def reads(held, x):
    return x * getattr(held, "tag", 0)


def writes(held, x):
    held.tag = 7
    return x * held["v"]


def counts(held, x):
    held.tag = getattr(held, "tag", 0) + 1
    held["v"] += 1
    return x * held.tag


def returns(held, x):
    made = collections.OrderedDict(held, y=x * 2)
    made.tag = x.shape[0]
    return made


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("program", [reads, writes, counts])
@torch.no_grad()
def test_attributes_of_ordered_dicts(program, mode):
    function = escapement.jit(program, mode=mode)
    for call in range(30):
        ours, eagers, x = ordered(call % 3), ordered(call % 3), torch.rand(call % 4)
        assert torch.equal(function(ours, x), program(eagers, x))
        assert ours == eagers and vars(ours) == vars(eagers), call


@torch.no_grad()
def test_results_with_attributes():
    function = escapement.jit(returns)
    for size in (3, 1, 0, 7, 3):
        made = function(ordered(0), torch.ones(size))
        assert made.tag == size and torch.equal(made["y"], torch.ones(size) * 2) and [*made] == ["v", "y"]


@torch.no_grad()
def test_a_state_dict_keeps_its_versions():
    state = torch.nn.BatchNorm1d(2).state_dict()
    for program in (copy.copy, copy.deepcopy, lambda held: held):
        function = escapement.jit(program)
        assert all(function(state)._metadata == state._metadata for _ in range(4))


class Registered:
    def __init__(self, value):
        self.value = value


torch.utils._pytree.register_pytree_node(Registered, lambda held: ([held.value], None), lambda children, _: Registered([*children][0]))


@torch.no_grad()
def test_attributes_that_a_registered_type_leaves_out():
    function = escapement.jit(lambda held, x: x * held.value * getattr(held, "tag", 1.0))
    for call in range(12):
        held = Registered(torch.tensor(2.0))
        if call % 3:
            held.tag = float(call)
        assert torch.equal(function(held, torch.ones(3)), torch.full((3,), 2.0 * getattr(held, "tag", 1.0))), call


# --- numbers among the arguments, in what is made of them

class Holder:
    pass


def closed_over(n):
    return lambda: n


def with_default(n):
    return lambda q=n: q


HELD = {
    "set": (lambda n: {n, 100}, min), "frozen set": (lambda n: frozenset([n]), min), "set of tuples": (lambda n: {(n, 1)}, lambda c: min(c)[0]), "counter": (lambda n: collections.Counter([n]), min),
    "counted": (lambda n: collections.Counter(v=n), lambda c: c["v"]), "default dict": (lambda n: collections.defaultdict(int, {n: 1}), min), "slice": (slice, lambda c: c.stop),
    "partial": (lambda n: functools.partial(print, n), lambda c: c.args[0]), "closure": (closed_over, lambda c: c()), "default": (with_default, lambda c: c()), "layer": (lambda n: torch.nn.Softmax(dim=n), lambda c: c.dim),
    "error": (ValueError, lambda c: c.args[0]), "deque": (lambda n: collections.deque([{n}]), lambda c: min(c[0])), "in the middle of a sum": (lambda n: {n, n + 1000}, min),
}


@pytest.mark.parametrize("kept", ["returned", "put into an argument", "appended"])
@pytest.mark.parametrize("row", HELD)
@torch.no_grad()
def test_numbers_that_leave_a_recording(row, kept):
    make, ask = HELD[row]

    def program(held, items, n, x):
        made = make(n)
        if kept == "put into an argument":
            held.made = made
        elif kept == "appended":
            items.append(made)
        return x * 2, made if kept == "returned" else None

    function = escapement.jit(program)
    for n in (2, 3, 2, 5):
        held, items = Holder(), []
        held.made = None
        result = function(held, items, n, torch.ones(3))
        found = ask({"returned": result[1], "put into an argument": held.made, "appended": (items or [None])[0]}[kept])
        assert type(found) is int and found == n


# --- parameters, and writes that are not made

PARAMETER = torch.nn.Parameter(torch.ones(2))
ASKING = {
    "is": lambda p: type(p) is torch.nn.Parameter, "in": lambda p: type(p) in (torch.nn.Parameter, int), "issubclass": lambda p: issubclass(type(p), torch.nn.Parameter), "table": lambda p: {torch.nn.Parameter: True}.get(type(p), False),
    "isinstance": lambda p: isinstance(p, torch.nn.Parameter), "name": lambda p: type(p).__name__ == "Parameter",
}


@pytest.mark.parametrize("row", ASKING)
@torch.no_grad()
def test_parameters_are_parameters(row):
    ask = ASKING[row]
    function = escapement.jit(lambda p, x: x * (2 if ask(p) else 3))
    for _ in range(4):
        for value in (PARAMETER, torch.ones(2)):
            assert torch.equal(function(value, torch.ones(3)), torch.ones(3) * (2 if ask(value) else 3))
    assert not vars(PARAMETER)


@torch.no_grad()
def test_a_write_that_is_not_made_is_not_counted():
    def program(x, state):
        if x.sum() > 1:
            state.add_(1)
        return x * 2

    function = escapement.jit(program)
    for value in (5.0, 5.0, 5.0, -5.0, -5.0):
        function(torch.full((3,), value), torch.zeros(3))
    state, eagers = torch.ones(3), torch.ones(3)
    for value in (-5.0, -5.0, 5.0, -5.0, 5.0, 5.0):
        x = torch.full((3,), value)
        assert torch.equal(function(x, state), program(x, eagers))
        assert torch.equal(state, eagers) and state._version == eagers._version
    assert not function.info()["eager"]
