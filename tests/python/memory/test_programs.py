"""Programs that try the memory model: views, in-place writes, out=, aliasing, mixtures of indexing ops, data-dependent sizes."""

import pytest
import torch
from harness import assert_exact, compiled, region, seeded, values

G = seeded("programs")


def f32(*shape):
    return values(shape, torch.float32, G, False)


def check_values(function, *calls):
    """As check, where eager may serve some calls."""
    made = region(lambda *args: list(function(*args)), len(calls[0]))
    for args in calls:
        for _ in range(2):
            ours, eager = made(*args), list(function(*args))
            for a, b in zip(ours, eager):
                assert_exact(a, b)
            assert same_aliasing(list(ours) + list(args), eager + list(args))
    return made


def check(function, *calls, recordings=None, exact=True):
    """Calls function at each argument list, eager and compiled, on equal copies; compares results and the arguments afterwards."""
    made = region(lambda *args: list(function(*args)), len(calls[0]))
    for args in calls:
        for _ in range(2):
            mine, theirs = [a.clone() for a in args], [a.clone() for a in args]
            ours, eager = made(*mine), list(function(*theirs))
            for a, b in zip(list(ours) + mine, eager + theirs):
                assert_exact(a, b) if exact else torch.testing.assert_close(a, b)
            assert [t.data_ptr() for t in ours] != [] and same_aliasing(list(ours) + mine, eager + theirs)
    if recordings is not None:
        assert made.info()["recordings"] == recordings, made.info()
    assert not made.info()["fallbacks"], made.info()["fallbacks"]
    return made


def same_aliasing(ours, eager):
    def pattern(tensors):
        keys = [t.untyped_storage().data_ptr() for t in tensors]
        return [keys.index(k) for k in keys]

    live = [i for i, t in enumerate(eager) if t.numel()]
    return pattern([ours[i] for i in live]) == pattern([eager[i] for i in live])


SIZES = [(3, 5), (1, 1), (1, 7), (8, 1), (0, 4), (17, 31)]
MIXTURES = {
    "cat_last_bias": (lambda x, y, b: [torch.cat([x, y], -1) + b[:1, :1]], 3),
    "cat_first_relu": (lambda x, y: [torch.relu(torch.cat([x * 2, y], 0))], 2),
    "stack": (lambda x, y: [torch.stack([x, y + 1], 1)], 2),
    "slices": (lambda x: [x[:, 1:] - x[:, :-1], x[::2]], 1),
    "select": (lambda x: [x[:, -1] * 2, x.unsqueeze(1)[:, 0]], 1),
    "transpose_add": (lambda x, y: [x.t().contiguous() + y.t()], 2),
    "permuted_result": (lambda x: [x.t() * 2], 1),
    "pad": (lambda x: [torch.nn.functional.pad(x, (1, 2), value=3.0)], 1),
    "arange": (lambda x: [x + torch.arange(x.shape[1], dtype=torch.float32), torch.arange(x.shape[0])], 1),
    "causal": (lambda x: [torch.tril(x), torch.triu(x, 1)], 1),
    "full_where": (lambda x: [torch.where(x > 0, x, torch.zeros_like(x)), torch.full((x.shape[0], 2), 1.5)], 1),
    "chunk_glu": (lambda x: [torch.nn.functional.silu(torch.cat([x, x], -1).chunk(2, -1)[0]) * x], 1),
    "expand": (lambda x: [x.unsqueeze(1).expand(-1, 3, -1) * 1.5], 1),
    "reshape": (lambda x: [(x + 1).reshape(-1) * 2, (x + 1).t().reshape(-1)], 1),
    "flip_call": (lambda x: [torch.flip(x, [0]) + 1], 1),
    "cumsum": (lambda x: [torch.cumsum(x, -1) * 2], 1),
    "sort": (lambda x: list(torch.sort(x + 1, dim=-1)), 1),
    "max_dim": (lambda x: list(torch.max(torch.cat([x, x * 2 + 1], 1), 1)), 1),
    "size_arithmetic": (lambda x: [x * x.shape[0] + x.shape[1] // 2], 1),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_mixtures(name):
    function, arity = MIXTURES[name]
    exact = name not in ("chunk_glu",)
    check(function, *[[f32(*s) for _ in range(arity)] for s in SIZES], exact=exact)


def test_an_output_that_is_a_view_at_size_one_only():
    made = check_values(lambda x: [x.t().reshape(-1)], *[[f32(*s)] for s in SIZES])
    assert set(made.info()["fallbacks"]) <= {"recorder_refused"}


INDEXING = {
    "embedding": (lambda t, i: [torch.nn.functional.embedding(i, t) * 2], (0,)),
    "index_select": (lambda t, i: [torch.index_select(t, 0, i.flatten()) + 1], (0,)),
    "gather": (lambda t, i: [torch.gather(t, 0, i) * 3], (0,)),
    "index": (lambda t, i: [t[i] - 1], (0,)),
}


@pytest.mark.parametrize("name", INDEXING)
def test_indexing(name):
    function, _ = INDEXING[name]
    calls = []
    for rows, width, picks in [(7, 5, (3, 5)), (1, 1, (1, 1)), (11, 13, (2, 7)), (4, 3, (0, 3)), (100, 64, (9, 1))]:
        calls.append([f32(rows, width), torch.randint(0, rows, picks, generator=G)])
    check(function, *calls)


@pytest.mark.parametrize("name", ["embedding", "index_select", "gather", "index"])
@pytest.mark.parametrize("bad", [7, -8])
def test_out_of_range_positions_raise_as_eager_does(name, bad):
    function, _ = INDEXING[name]
    made = region(lambda *a: list(function(*a)), 2)
    table, good = f32(7, 5), torch.tensor([[0, 1], [2, 3]])
    made(table, good), made(table, good)
    wrong = torch.tensor([[0, bad], [2, 3]])
    with pytest.raises(Exception) as eager:
        function(table, wrong)
    with pytest.raises(type(eager.value)):
        made(table, wrong)
    assert_exact(made(table, good)[0], function(table, good)[0])


def inplace_chain(x, y):
    x.add_(y)
    x.mul_(2)
    return [x + 1, x]


def write_through_view(x, y):
    x[:, 0] = y[:, 0] * 3
    z = x * 2
    x[0].zero_()
    return [z, x + 0]


def local_in_place(x, y):
    z = x * y
    v = z[:, :1]
    z.add_(1)
    return [v + 0, z.relu_()]


def out_argument(x, y):
    z = torch.empty_like(x)
    torch.add(x, y, out=z)
    return [z * 2]


def returned_views(x, y):
    z = x + y
    return [z, z.t(), x, x[:, :1]]


def swap(x, y):
    t = x.clone()
    x.copy_(y)
    y.copy_(t)
    return [x - y]


@pytest.mark.parametrize("function", [inplace_chain, write_through_view, local_in_place, out_argument, returned_views, swap])
def test_memory(function):
    check(function, *[[f32(*s), f32(*s)] for s in [(3, 5), (1, 1), (4, 1), (17, 31)]])


def test_overlapping_inputs_are_not_confused():
    made = region(lambda x, y: [x.add_(1), y * 2], 2)
    made(f32(4), f32(4)), made(f32(4), f32(4))
    base = f32(4)
    copy = base.clone()
    ours = made(base, base)
    assert_exact(ours[1], (copy + 1) * 2)
    wide = f32(6)
    mine = wide.clone()
    ours = made(mine[:4], mine[2:])
    theirs = wide.clone()
    eager = [theirs[:4].add_(1), theirs[2:] * 2]
    assert_exact(ours[1], eager[1])


def test_random_numbers_follow_eagers_stream():
    def function(x):
        return [torch.nn.functional.dropout(x, 0.5, True) * 2, x + torch.rand_like(x)]

    made = region(lambda x: function(x), 1)
    for size in [(3, 5), (3, 5), (7, 2)]:
        x = f32(*size)
        torch.manual_seed(3)
        eager = function(x)
        state = torch.random.get_rng_state()
        torch.manual_seed(3)
        ours = made(x)
        assert all(torch.equal(a, b) for a, b in zip(ours, eager))
        assert torch.equal(torch.random.get_rng_state(), state)


DATA_DEPENDENT = {
    "nonzero": lambda x: [torch.nonzero(x > 0) * 2],
    "mask": lambda x: [x[x > 0] + 1],
    "unique": lambda x: [torch.unique((x * 2).round()) * 2],
    "item_size": lambda x: [torch.ones(int((x > 0).sum()) + 1) * 2],
}


@pytest.mark.parametrize("name", ["nonzero", "mask", "unique"])
def test_sizes_born_at_run_time(name):
    check(DATA_DEPENDENT[name], *[[f32(*s)] for s in [(3, 5), (1, 1), (0, 3), (17, 31)]])


def test_branch_on_a_value_is_right_on_both_sides():
    def function(x):
        return [x * 2] if x.sum() > 0 else [x - 1]

    made = region(lambda x: function(x), 1)
    for sign in (1, -1, 1, -1, 1):
        x = f32(4, 5).abs() * sign
        assert_exact(made(x)[0], function(x)[0])


def test_branch_on_a_size_is_right_on_both_sides():
    def function(x):
        return [x * 2] if x.shape[0] > 3 else [x - 1]

    made = region(lambda x: function(x), 1)
    for n in (5, 2, 9, 3, 4, 0, 1):
        x = f32(n, 2)
        assert_exact(made(x)[0], function(x)[0])
    assert made.info()["recordings"] == 2, made.info()


def test_parameters_are_read_live():
    weight = torch.nn.Parameter(f32(5, 5))
    call = compiled(lambda x: x @ weight.detach() + weight.detach(), 1)
    x = f32(5, 5)
    for _ in range(3):
        torch.testing.assert_close(call(x), x @ weight.detach() + weight.detach())
        with torch.no_grad():
            weight.mul_(2)


def test_storage_access_is_never_replayed():
    made = region(lambda x: [x + x.numpy().sum()], 1)
    for k in (1.0, 2.0):
        x = torch.full((3,), k)
        assert_exact(made(x)[0], x + x.numpy().sum())


OFFSETS = {
    "as_strided": lambda x: [x.as_strided((2,), (1,), 0) + 0],
    "as_strided_view": lambda x: [x.as_strided((2,), (1,), 1)],
    "as_strided_of_a_slice": lambda x: [x[1:].as_strided((2,), (1,)) * 2],
    "arithmetic": lambda x: [x * x.storage_offset()],
    "decision": lambda x: [x + 1 if x.storage_offset() > 5 else x - 1],
}


@pytest.mark.parametrize("name", OFFSETS)
def test_storage_offsets_are_those_of_the_call(name):
    memory, function = torch.arange(32.0), OFFSETS[name]
    made = region(function, 1)
    for start in (4, 0, 8, 20, 4):
        x = memory[start:start + 4]
        (ours,), (eager,) = made(x), function(x)
        assert_exact(ours, eager)
        assert ours.storage_offset() == eager.storage_offset()
    assert made.info()["recordings"] <= 3, made.info()


def test_replaced_data_reaches_the_caller():
    def body(x, y):
        y.data = x * 2
        return [y + 1]

    made = region(body, 2)
    for n in (3, 4):
        x, mine, theirs = torch.ones(n), torch.zeros(n), torch.zeros(n)
        ours, eager = made(x, mine), body(x, theirs)
        assert_exact(ours[0], eager[0])
        assert_exact(mine, theirs)
    assert made.info()["fallbacks"], "a trace has no such op: the program itself must have run"


def test_numbers_that_become_known_while_recording():
    from escapement.recording.dispatch import complete_sym_node

    complete_sym_node()
    made = escapement_region(lambda x, n: [x * (1 << n) + (n & 3)])
    for n in (5, 2, 5):
        assert_exact(made(torch.ones(2), n)[0], torch.ones(2) * (1 << n) + (n & 3))


def escapement_region(function):
    from harness import core

    return core().Region(function, [("tensor", []), ("int", 0)], {}, "numbers")
