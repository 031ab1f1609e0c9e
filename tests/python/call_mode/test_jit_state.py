"""escapement.jit and what a function reaches beside its arguments: parameters, buffers, modules, globals, closures.
However one of them is replaced, the next call uses the new one; a program that rebinds such state itself is noticed and
runs eagerly.
"""

import collections
import functools
import gc
import logging
import re
import weakref

import pytest
import torch

import escapement
from escapement.tracer.jit_entry import KEY
from jit_cases import check, equal, matrix

pytestmark = pytest.mark.usefixtures("fresh")


# --- parameters, buffers, modules

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.scale = torch.nn.Parameter(torch.ones(4))
        self.register_buffer("shift", torch.zeros(4))
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(2)])
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x):
        x = self.linear(x) * self.scale + self.shift
        for layer in self.layers:
            x = layer(x).relu()
        return self.drop(x)


def fresh_linear():
    torch.manual_seed(5)
    return torch.nn.Linear(4, 4)


def set_data(net):
    net.scale.data = torch.full((4,), 3.0)


def assign(net):
    net.scale = torch.nn.Parameter(torch.full((4,), 3.0))


def by_dict(net):
    net._parameters["scale"] = torch.nn.Parameter(torch.full((4,), 3.0))


def assigned_state(net):
    net.load_state_dict({k: v + 1 for k, v in net.state_dict().items()}, assign=True)


def copied_state(net):
    net.load_state_dict({k: v + 1 for k, v in net.state_dict().items()})


def surgery(net):
    net.linear = fresh_linear()


def in_list(net):
    net.layers[0] = fresh_linear()


def insert(net):
    net.layers.insert(0, fresh_linear())


def delete(net):
    del net.layers[0]


def append_layer(net):
    net.layers.append(fresh_linear())


def new_buffer(net):
    net.register_buffer("shift", torch.full((4,), 2.0))


def buffer_attribute(net):
    net.shift = torch.full((4,), 2.0)


def in_place(net):
    with torch.no_grad():
        net.scale.mul_(2)
        net.shift.add_(1)


def parametrized(net):
    torch.nn.utils.parametrize.register_parametrization(net.linear, "weight", torch.nn.Softplus())


def weight_norm(net):
    torch.nn.utils.parametrizations.weight_norm(net.linear)


def to_double_and_back(net):
    net.to(torch.float64).to(torch.float32)


def overwritten(net):
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        net.to(torch.float64).to(torch.float32)
        net.scale.data.mul_(2)
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)


def forward_hook(net):
    net.linear.register_forward_hook(lambda module, args, output: output + 1)


REPLACEMENTS = [set_data, assign, by_dict, assigned_state, copied_state, surgery, in_list, insert, delete, append_layer,
                new_buffer, buffer_attribute,
                in_place, parametrized, weight_norm, to_double_and_back, overwritten, forward_hook]
WRAPS = {"module": lambda net: net, "lambda": lambda net: lambda x: net(x), "partial": lambda net: functools.partial(net),
         "method": lambda net: net.forward}
SAME_OBJECTS = (set_data, copied_state, in_place)   # no new recording: the tensors are the same objects


@pytest.mark.parametrize("replace", REPLACEMENTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_replaced_parts_are_noticed(replace, wrap):
    torch.manual_seed(0)
    net = Net().eval()
    fn = wrap(net)
    jitted = escapement.jit(fn)
    with torch.no_grad():
        check(jitted, fn, [(matrix(n),) for n in (3, 5)], 1)
        replace(net)
        check(jitted, fn, [(matrix(n),) for n in (3, 5)], 1)
        assert jitted.info()["dropped"] == (0 if replace in SAME_OBJECTS else 1)


def test_functional_call_of_a_module_inside():
    net = torch.nn.Linear(4, 4)
    outer = torch.nn.Module()
    outer.inner, outer.forward = net, escapement.jit(lambda x: net(x))
    other = {"inner.weight": torch.ones(4, 4), "inner.bias": torch.zeros(4)}
    x = matrix(2)
    with torch.no_grad():
        for _ in range(2):
            equal(outer(x), net(x))
            equal(torch.func.functional_call(outer, other, (x,)), x @ torch.ones(4, 4))
        assert outer.forward.info()["dropped"] == 3


def test_swapped_tensors_are_refused_or_noticed():
    net = torch.nn.Linear(4, 4)
    jitted, x = escapement.jit(net), matrix(2)
    with torch.no_grad():
        jitted(x), jitted(x)
        try:
            torch.utils.swap_tensors(net.weight, torch.nn.Parameter(torch.ones(4, 4)))
        except RuntimeError:
            jitted.clear()
        equal(jitted(x), net(x))


@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_script_modules_are_not_watched_and_so_not_compiled():
    net = torch.jit.script(torch.nn.Linear(4, 4))
    jitted = escapement.jit(net)
    with torch.no_grad():
        equal(jitted(matrix(2)), net(matrix(2)))
    assert jitted.info()["eager"] == {"unsupported_argument": 1}


def test_a_function_that_is_replaced_all_the_time_runs_eagerly():
    net = torch.nn.Linear(4, 4)
    jitted = escapement.jit(net, max_recordings=2)
    with torch.no_grad():
        for n in range(6):
            net.weight = torch.nn.Parameter(torch.full((4, 4), float(n)))
            equal(jitted(matrix(2)), net(matrix(2)))
    assert jitted.info()["eager"] == {"replaced": 3}


def test_replacing_now_and_then_costs_a_recording_each_time():
    net = torch.nn.Linear(4, 4)
    jitted = escapement.jit(net, max_recordings=2)
    with torch.no_grad():
        for n in range(6):
            net.weight = torch.nn.Parameter(torch.full((4, 4), float(n)))
            for _ in range(18):
                equal(jitted(matrix(2)), net(matrix(2)))
    assert not jitted.info()["eager"] and jitted.info()["dropped"] == 5


def test_training_flags_are_a_key():
    net = Net()
    jitted = escapement.jit(net)
    with torch.no_grad():
        for mode in (True, False, True, False):
            net.train(mode)
            torch.manual_seed(1)
            ours = jitted(matrix(3))
            torch.manual_seed(1)
            equal(ours, net(matrix(3)))
        net.drop.training = True    # one flag, behind everybody's back
        torch.manual_seed(1)
        ours = jitted(matrix(3))
        torch.manual_seed(1)
        equal(ours, net(matrix(3)))
    info = jitted.info()
    assert info["recordings"] == 3 and info["dropped"] == 0


def test_batch_norm_writes_its_statistics():
    nets = [torch.nn.BatchNorm1d(4) for _ in range(2)]
    jitted = escapement.jit(nets[0])
    with torch.no_grad():
        for n in (3, 6, 9):
            equal(jitted(matrix(n)), nets[1](matrix(n)))
            equal(dict(nets[0].named_buffers()), dict(nets[1].named_buffers()))
    assert jitted.info()["recordings"] == 1


WEIGHT = torch.ones(4)


def test_replaced_globals_and_closures_of_tensors_are_noticed():
    global WEIGHT
    held = torch.ones(4)

    def fn(x):
        return x * WEIGHT + held

    jitted = escapement.jit(fn)
    check(jitted, fn, [(matrix(3),), (matrix(2),)], 1)
    WEIGHT = torch.full((4,), 2.0)
    check(jitted, fn, [(matrix(3),), (matrix(2),)])
    held = torch.zeros(4)
    check(jitted, fn, [(matrix(3),), (matrix(2),)])
    assert jitted.info()["dropped"] == 2


# --- state that the program rebinds

class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.last, self.log = 0, None, []


class CountsCalls(Counter):
    def forward(self, x):
        self.calls += 1
        return x * self.calls


class KeepsTensor(Counter):
    def forward(self, x):
        last, self.last = self.last, x + 1
        return x if last is None else x * last.sum()


class Appends(Counter):
    def forward(self, x):
        self.log.append(x * 2)
        return sum(self.log).sum() + x


class KeepsSize(Counter):
    def forward(self, x):
        self.last = (self.last or 0) + x.shape[0]
        return x * self.last


class ReplacesBuffer(Counter):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x):
        self.total = self.total + x.sum()
        return x * self.total


@pytest.mark.parametrize("kind", [CountsCalls, KeepsTensor, KeepsSize, Appends, ReplacesBuffer], ids=lambda c: c.__name__)
def test_rebound_state_is_seen_while_recording(kind):
    ours, host = kind(), kind()
    jitted = escapement.jit(ours)
    with torch.no_grad():
        for n in range(6):
            equal(jitted(matrix(3, seed=n)), host(matrix(3, seed=n)))
    assert jitted.info()["eager"] == {"state_changed": 3}
    for value in (ours.last, *ours.log, *ours.buffers()):   # nothing of a recording stays behind
        assert type(value) in (int, torch.Tensor, type(None))
        assert not isinstance(value, torch.Tensor) or not torch._C._dispatch_keys(value).has(KEY)


LOG = logging.getLogger("escapement.test")
COUNTS = collections.Counter()


def test_what_libraries_remember_is_no_state_of_the_program():
    def fn(x):
        LOG.debug("called")
        return re.sub("a", "b", "aa") and x * 2

    check(escapement.jit(fn), fn, [(matrix(n),) for n in (3, 4)], 1)


def test_global_containers_are_state_of_the_program():
    def fn(x):
        COUNTS["calls"] += 1
        return x * 2

    jitted = escapement.jit(fn)
    for _ in range(5):
        equal(jitted(matrix(2)), matrix(2) * 2)
    assert COUNTS["calls"] == 5 and jitted.info()["eager"] == {"state_changed": 2}


def test_state_that_is_set_once_costs_one_recording():
    class Caches(torch.nn.Module):
        cache = None

        def forward(self, x):
            if self.cache is None:
                self.cache = torch.arange(4.0)
            return x + self.cache

    net = Caches()
    jitted = escapement.jit(net)
    for n in (3, 4, 5, 6):
        equal(jitted(matrix(n)), matrix(n) + torch.arange(4.0))
    assert jitted.info()["recordings"] == 1 and not jitted.info()["eager"]   # the first is not kept


def test_tensors_in_plain_attributes_and_containers():
    class Tables(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.tables, self.named = torch.ones(4), [torch.ones(4)], {"a": torch.ones(4)}

        def forward(self, x):
            return x * self.table + sum(self.tables) + self.named["a"]

    net = Tables()
    jitted, changes = escapement.jit(net), [
        lambda: setattr(net, "table", torch.zeros(4)), lambda: net.tables.append(torch.ones(4)),
        lambda: net.tables.__setitem__(0, torch.zeros(4)), lambda: net.named.update(a=torch.zeros(4)),
        lambda: setattr(net, "tables", [torch.full((4,), 9.0)])]
    for change in (lambda: None, *changes):
        change()
        check(jitted, net, [(matrix(2),), (matrix(3),)], 1)
    assert jitted.info()["dropped"] == len(changes)


def test_what_is_behind_decorators():
    net = torch.nn.Linear(4, 4)
    inner = escapement.jit(net)

    @torch.no_grad()
    def helper(x):
        return net(x)

    @functools.lru_cache
    def cached():
        return net

    def plain(x):
        return x

    for fn in (lambda x: inner(x) + 1, lambda x: helper(x) + 1, lambda x: cached()(x) + 1, inner):
        jitted = escapement.jit(lambda x: plain(fn(x)))
        with torch.no_grad():
            check(jitted, fn, [(matrix(2),), (matrix(3),)], 1)
            net.weight = torch.nn.Parameter(net.weight + 1)
            check(jitted, fn, [(matrix(2),), (matrix(3),)], 1)
        assert jitted.info()["dropped"] == 1


def test_reached_deep_first_and_then_directly():
    class Holder:
        def __init__(self, inner):
            self.inner = inner

    net = torch.nn.Linear(4, 4)
    near = Holder(net)
    far = Holder(Holder(Holder(Holder(near))))

    def fn(x, far=far, near=near):
        return near.inner(x)

    jitted = escapement.jit(fn)
    with torch.no_grad():
        check(jitted, fn, [(matrix(2),), (matrix(3),)], 1)
        near.inner = fresh_linear()
        check(jitted, fn, [(matrix(2),), (matrix(3),)], 1)
        near.inner.weight = torch.nn.Parameter(torch.ones(4, 4))
        check(jitted, fn, [(matrix(2),), (matrix(3),)], 1)
    assert jitted.info()["dropped"] == 2


# --- lifetimes

def test_nothing_is_leaked():
    net = Net().eval()
    jitted = escapement.jit(net)
    with torch.no_grad():
        jitted(matrix(2)), jitted(matrix(3))
    gone = [weakref.ref(net), weakref.ref(net.scale), weakref.ref(jitted)]
    del net, jitted
    gc.collect()
    assert [reference() for reference in gone] == [None] * 3


def test_old_weights_go_when_they_are_replaced():
    net = torch.nn.Linear(4, 4)
    jitted = escapement.jit(net)
    gc.collect()
    gc.disable()   # at once, not at the next collection
    try:
        with torch.no_grad():
            jitted(matrix(2)), jitted(matrix(2))
            gone = weakref.ref(net.weight)
            net.weight = torch.nn.Parameter(torch.ones(4, 4))
            jitted(matrix(2))
            assert gone() is None
            gone = weakref.ref(net.weight)
            jitted.clear()
            net.weight = None
            assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("form", ["detach", "detach of a view", "view of a detached", "data"])
def test_what_is_detached_wants_no_gradient(form):
    forms = {"detach": lambda x: x.detach(), "detach of a view": lambda x: x[1:].detach(), "view of a detached": lambda x: x.detach()[1:],
             "data": lambda x: x.data}
    jitted = escapement.jit(forms[form])
    for n in (5, 2, 7, 13):
        x = torch.randn(n, requires_grad=True)
        with torch.no_grad():
            got = jitted(x)
        assert got is not x and not got.requires_grad and got.is_leaf and got._base is not x, n
        got.add_(1)     # of a view of a leaf, autograd would refuse it
        assert torch.equal(x[-len(got):], got) and got.data_ptr() == x[-len(got):].data_ptr()


@pytest.mark.parametrize("other_name", [lambda x: x.view(torch.int32), lambda x: x.detach(), lambda x: x[:]], ids=["int32", "detach", "slice"])
def test_what_was_written_before_an_exception_is_written_once(other_name):
    def program(x):
        other_name(x).add_(1)
        return x[:, 0]   # there is one axis

    jitted = escapement.jit(program)
    for n in (3, 1, 5):
        mine, eager = torch.ones(n), torch.ones(n)
        for f, x in ((jitted, mine), (program, eager)):
            with pytest.raises(IndexError):
                f(x)
        assert torch.equal(mine, eager), n
