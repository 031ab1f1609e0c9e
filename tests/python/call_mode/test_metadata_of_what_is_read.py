"""What a function asks a tensor of elsewhere about itself: sizes, dtype, strides, whether it requires gradients. Each row's function against itself run
eagerly, after each change and back. What has not changed is served by compiled code; a state that comes back finds its recording."""
import operator
import threading

import pytest
import torch

import escapement
from escapement.core import core


def replaced(tensor, *others):
    return [lambda other=other: setattr(tensor, "data", other) for other in others]


def sizes():
    w = torch.ones(5)
    return lambda x: x * w.shape[0], [*replaced(w, torch.ones(7), torch.ones(5, 2)), lambda: w.resize_(9)]


def sizes_of_a_global():
    return lambda x: x * GLOBAL.size(-1) + GLOBAL.dim(), replaced(GLOBAL, torch.ones(3, 4), torch.ones(2))


GLOBAL = torch.ones(6)


def zeros_of_a_size():
    w = torch.ones(5)
    return lambda x: torch.zeros(w.shape), replaced(w, torch.ones(7), torch.ones(5, 2))


def length():
    w = torch.ones(5)
    return lambda x: x * len(w), replaced(w, torch.ones(7), torch.ones(3, 2))


def rank():
    w = torch.ones(5)
    return lambda x: x * w.dim() + w.ndim + w.ndimension(), replaced(w, torch.ones(7, 1), torch.ones(3, 2, 1))


def dtype():
    w = torch.ones(5)
    return lambda x: x.to(w.dtype), replaced(w, torch.ones(5).double(), torch.ones(5).half())


def dtype_given():
    w = torch.ones(5)
    return lambda x: x.to(w), replaced(w, torch.ones(5).double(), torch.ones(5).int())


def kind_of_dtype():
    w = torch.ones(5)
    return (lambda x: x * (2 if w.is_floating_point() else 3) + torch.is_complex(w) + torch.is_floating_point(w),
            replaced(w, torch.ones(5).int(), torch.ones(5).to(torch.complex64)))


def information_of_dtype():
    w = torch.ones(5)
    return lambda x: x * torch.finfo(w.dtype).bits, replaced(w, torch.ones(5).double(), torch.ones(5).half())


def promoted():
    w = torch.ones(5)
    return lambda x: x.to(torch.result_type(x, w)), replaced(w, torch.ones(5).double(), torch.ones(5).int())


def bytes_of_it():
    w = torch.ones(5)
    return lambda x: x * w.nbytes + w.element_size() + w.untyped_storage().nbytes(), replaced(w, torch.ones(7), torch.ones(7).half())


def strides():
    w = torch.ones(4, 4)
    return lambda x: x * w.stride(0) + w.is_contiguous(), replaced(w, torch.ones(4, 4).t(), torch.ones(4, 8)[:, ::2])


def offset():
    w = torch.ones(4)
    return lambda x: x * w.storage_offset(), replaced(w, torch.ones(9)[3:7])


def offset_of_one_that_is_used():
    w = torch.ones(4)
    return lambda x: x * w.storage_offset() + w.sum(), replaced(w, torch.ones(9)[3:7], torch.ones(9)[2:6])


def gradient_wanted():
    w = torch.ones(4)
    return lambda x: x * (2 if w.requires_grad else 3), [w.requires_grad_, lambda: w.requires_grad_(False)]


def gradient_wanted_of_one_that_is_used():
    w = torch.ones(4)
    return lambda x: x * (2 if w.requires_grad else 3) + w.sum(), [w.requires_grad_, lambda: w.requires_grad_(False)]


def count_of_writes():
    w = torch.ones(4)
    return lambda x: x * w._version, [lambda: w.add_(1), lambda: w.zero_()]


def parameter_of_a_module():
    m = torch.nn.Linear(4, 2)
    return lambda x: x * m.weight.shape[1] + m.weight.numel(), replaced(m.weight, torch.ones(2, 9), torch.ones(3, 3))


def dtype_of_a_module():
    m = torch.nn.Linear(4, 2)
    return lambda x: x.to(m.weight.dtype), [m.double, m.half, m.float]


def dtype_of_the_first_parameter():
    m = torch.nn.Linear(4, 2)
    return lambda x: x.to(next(m.parameters()).dtype), [m.double, m.float]


def count_of_parameters():
    m = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Linear(2, 3))
    return lambda x: x * sum(p.numel() for p in m.parameters()), replaced(m[0].weight, torch.ones(2, 9), torch.ones(3, 3))


def module_itself():
    class Sized(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3, 4))

        def forward(self, x):
            return x.to(self.weight.dtype) * self.weight.shape[0]

    m = Sized()
    return m, [*replaced(m.weight, torch.ones(5, 4)), m.double, m.float]


def mapped():
    ws = [torch.ones(3), torch.ones(4)]
    return lambda x: x * sum(map(torch.numel, ws)) + sum(map(len, ws)), replaced(ws[1], torch.ones(9))


def through_a_getter():
    w, shape = torch.ones(3), operator.attrgetter("shape")
    return lambda x: x * shape(w)[0], replaced(w, torch.ones(9))


def layout():
    w = torch.ones(3, 3)
    return lambda x: x * (2 if w.is_sparse else 3), [lambda: torch.utils.swap_tensors(w, torch.ones(3, 3).to_sparse())]


ROWS = [sizes, sizes_of_a_global, zeros_of_a_size, length, rank, dtype, dtype_given, kind_of_dtype, information_of_dtype, promoted, bytes_of_it, strides, offset,
        offset_of_one_that_is_used, gradient_wanted, gradient_wanted_of_one_that_is_used, count_of_writes, parameter_of_a_module, dtype_of_a_module,
        dtype_of_the_first_parameter, count_of_parameters, module_itself, mapped, through_a_getter, layout]


def assert_alike(ours, eagers):
    assert ours.dtype == eagers.dtype and torch.equal(ours, eagers), (ours, eagers)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.__name__)
@torch.no_grad()
def test_each_change_is_noticed(row):
    function, changes = row()
    jitted = escapement.jit(function)
    x = torch.arange(6.0).reshape(3, 2)
    for change in [lambda: None, *changes, *changes]:
        change()
        assert_alike(jitted(x), function(x))
        recordings = jitted.info()["recordings"]
        for rows in (2, 3, 5, 1, 0):
            y = torch.arange(rows * 2.0).reshape(rows, 2)
            assert_alike(jitted(y), function(y))
        assert jitted.info()["recordings"] == recordings   # what has not changed is served
    assert not jitted.info()["eager"]


@torch.no_grad()
def test_a_state_that_comes_back_finds_its_recording():
    w = torch.ones(5)
    jitted = escapement.jit(lambda x: x * w.shape[0])
    x, shapes = torch.ones(3), [torch.ones(5), torch.ones(7), torch.ones(9)]
    for _ in range(4):
        for shape in shapes:
            w.data = shape
            assert torch.equal(jitted(x), x * len(shape))
    assert jitted.info()["recordings"] == len(shapes)


@torch.no_grad()
def test_what_nobody_asks_is_no_recording():
    w, m = torch.ones(5), torch.nn.Linear(2, 2)
    jitted = escapement.jit(lambda x: m(x) * x.shape[0] * (2 if w.requires_grad else 3))
    for size in (5, 7, 9, 11):
        w.data = torch.ones(size)
        w.add_(1)
        m.weight.fill_(size)
        assert torch.equal(jitted(torch.ones(3, 2)), m(torch.ones(3, 2)) * 3 * 3)
    assert jitted.info()["recordings"] == 1


@torch.no_grad()
def test_too_many_sizes_go_on_in_replay_mode():
    w = torch.ones(1)
    jitted = escapement.jit(lambda x: x * w.shape[0])
    for size in [*range(1, 60), 3, 4]:
        w.data = torch.ones(size)
        assert torch.equal(jitted(torch.ones(2)), torch.full((2,), float(size)))
    assert set(jitted.info()["eager"]) == {"too_many_values_elsewhere"}


@torch.no_grad()
def test_a_function_that_changes_what_it_asks():
    w = torch.ones(1)

    def function(x):
        n = w.shape[0]
        w.data = torch.ones(n + 1)
        return x * n

    jitted = escapement.jit(function)
    for size in range(1, 9):
        assert torch.equal(jitted(torch.ones(2)), torch.full((2,), float(size)))


@torch.no_grad()
def test_a_copy_of_the_function_asks_for_itself():
    w = torch.ones(5)
    first, second = (escapement.jit(lambda x, k=k: x * w.shape[0] * k) for k in (1, 2))
    for size in (5, 7, 5, 7):
        w.data = torch.ones(size)
        for k, jitted in ((1, first), (2, second)):
            assert torch.equal(jitted(torch.ones(2)), torch.full((2,), float(size * k)))
    assert first.info()["recordings"] == second.info()["recordings"] == 2


@torch.no_grad()
def test_flags_and_sizes_together():
    m = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout())
    jitted = escapement.jit(lambda x: x * m[0].weight.shape[0] if m.training else x.to(m[0].weight.dtype))
    for _ in range(3):
        for act in (m.train, m.eval, m.double, m.train, m.eval, m.float, *replaced(m[0].weight, torch.ones(3, 2), torch.ones(2, 2))):
            act()
            x = torch.ones(3)
            expected = x * m[0].weight.shape[0] if m.training else x.to(m[0].weight.dtype)
            assert_alike(jitted(x), expected)
    assert jitted.info()["recordings"] <= 7 and not jitted.info()["eager"]


def test_a_tensor_class_of_the_programs():
    class Named(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return super().__torch_function__(function, types, args, kwargs or {})

    w = torch.ones(5).as_subclass(Named)
    function = lambda x: x * w.shape[0]   # noqa: E731
    jitted = escapement.jit(function)
    with torch.no_grad():
        for size in (5, 7, 5):
            w.data = torch.ones(size).as_subclass(Named)
            assert torch.equal(jitted(torch.ones(2)), function(torch.ones(2)))


def test_a_parameter_that_is_not_initialised():
    m = torch.nn.LazyLinear(3)

    def function(x):
        try:
            return x * m.weight.shape[1]
        except RuntimeError:
            return x * 100

    jitted = escapement.jit(function)
    with torch.no_grad():
        assert torch.equal(jitted(torch.ones(2)), function(torch.ones(2)))
        m(torch.ones(2, 4))
        assert torch.equal(jitted(torch.ones(2)), function(torch.ones(2)))


def test_nothing_is_left_of_what_notices():
    before = {name: getattr(torch, name) for name in ("numel", "is_floating_point")}
    w = torch.ones(5)
    jitted = escapement.jit(lambda x: x * w.shape[0] + len(seen))
    seen = []
    with torch.no_grad():
        jitted(torch.ones(2))
    assert "__getattribute__" not in vars(torch.Tensor) and all(getattr(torch, name) is value for name, value in before.items())
    assert not core().recording()


@torch.no_grad()
def test_what_other_threads_ask_is_not_noted():
    w, asked, stop = torch.ones(5), torch.ones(6), threading.Event()

    def ask():
        while not stop.is_set():
            assert asked.shape[0] in (6, 8)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        jitted = escapement.jit(lambda x: x * w.shape[0] + asked.sum() * 0)
        assert torch.equal(jitted(torch.ones(2)), torch.full((2,), 5.0))
    finally:
        stop.set()
        thread.join()
    w.data = torch.ones(7)
    assert torch.equal(jitted(torch.ones(2)), torch.full((2,), 7.0))
