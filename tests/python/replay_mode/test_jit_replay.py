"""escapement.jit(fn, mode="replay"): equal to eager in every call, whatever the host code does; and segments are launched
compiled, with no recording for new sizes. The programs stand in replay_programs.py."""

import random
import threading

import pytest
import torch

import escapement
from harness import assert_same_form, bits, seeded
from replay_programs import PROGRAMS, RAISING

SHAPES = [(3, 4), (5, 7), (3, 4), (2, 9), (1, 5), (4, 1), (1, 1), (6, 6), (0, 4), (3, 0), (7, 3), (5, 7), (8, 2), (3, 4)]


def matrix(*shape):
    return torch.randn(*shape, generator=seeded(shape))


def replay(fn, **options):
    return escapement.jit(fn, mode="replay", **options)


def outcome(fn, x, step):
    torch.manual_seed(1000 + step)
    random.seed(step)
    try:
        result = fn(x, step)
    except Exception as error:
        result = type(error), str(error)
    return result, torch.get_rng_state()


def assert_same(ours, theirs):
    assert type(ours) is type(theirs), (type(ours), type(theirs))
    if isinstance(theirs, torch.Tensor):
        assert_same_form(ours, theirs)
        inexact = theirs.is_floating_point()
        assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-6, equal_nan=True) if inexact else ours.equal(theirs), (ours, theirs)
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs):
            assert_same(a, b)
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6, nan_ok=True)
    else:
        assert ours == theirs


def counts():
    found = escapement.stats()
    return {name: found.get(name, 0) for name in ("hits", "recordings", "launches", "eager_segments", "matched_operators")}


def run_both(ours, theirs, shapes, first=0):
    for step, shape in enumerate(shapes, first):
        x, y = matrix(*shape), matrix(*shape)
        (mine, my_state), (other, other_state) = outcome(ours, x, step), outcome(theirs, y, step)
        assert_same(mine, other)
        assert_same(x, y)
        assert torch.equal(my_state, other_state)


@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_to_eager_in_every_call(name):
    ours, theirs = replay(PROGRAMS[name]()), PROGRAMS[name]()
    with torch.no_grad():
        run_both(ours, theirs, SHAPES)


@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_to_eager_with_gradients_on(name):
    """Nothing requires them, or the program makes something that does."""
    run_both(replay(PROGRAMS[name]()), PROGRAMS[name](), SHAPES[:6])


@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_to_eager_operator_by_operator(name):
    """The slow twin: matched, and nothing compiled."""
    ours, theirs = replay(PROGRAMS[name](), max_recordings=0), PROGRAMS[name]()
    before = counts()
    with torch.no_grad():
        run_both(ours, theirs, SHAPES)
    assert counts()["launches"] == before["launches"], ours.text()


def test_strict_refuses_what_would_run_operator_by_operator():
    ours = replay(lambda x: (x + 1).relu() * 2, max_recordings=0, strict=True)
    with torch.no_grad():
        ours(matrix(3, 4))   # recorded: this runs for real in any case
        for _ in range(2):
            with pytest.raises(RuntimeError, match="3 operators of '.*<lambda>' in replay mode.*too_many_recordings.*strict is set"):
                ours(matrix(5, 6))
    fine = replay(lambda x: (x + 1).relu() * 2, strict=True)
    with torch.no_grad():
        for n in range(3, 8):
            assert torch.equal(fine(matrix(n, 4)), (matrix(n, 4) + 1).relu() * 2)


LOOSE = {"random_branches", "gradients_inside"} | RAISING   # go new ways late, or have nothing to launch


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - LOOSE))
def test_new_sizes_do_not_record_again(name):
    ours, theirs = replay(PROGRAMS[name]()), PROGRAMS[name]()
    with torch.no_grad():
        run_both(ours, theirs, [(6, 5), (7, 4), (6, 8), (5, 9), (7, 6), (8, 5), (6, 4), (9, 7)])
        before = counts()
        run_both(ours, theirs, [(7, 9), (10, 11), (12, 5), (6, 13), (9, 6), (11, 4)], first=8)
        after = counts()
    assert after["recordings"] == before["recordings"], ours.text()
    assert after["hits"] > before["hits"], ours.text()
    assert after["eager_segments"] == before["eager_segments"], ours.text()


def test_a_number_that_changes_makes_two_branches():
    rates = iter(range(1, 100))
    ours = replay(lambda x: (x * (1.0 / next(rates)) + 1).relu())
    for step in range(12):
        x = matrix(3 + step, 4)
        assert torch.equal(ours(x), (x * (1.0 / (step + 1)) + 1).relu())
    assert ours.info()["recordings"] == 2, ours.text()


def test_several_numbers_that_change_together_make_two_branches():
    def body(x, step):
        return ((x * (0.5 + step) + 0.25 * step).tanh() - 0.1 * step).relu() * 2

    ours = replay(body)
    for step in range(10):
        assert torch.allclose(ours(matrix(4, 5), step), body(matrix(4, 5), step), atol=1e-6)
    assert ours.info()["recordings"] == 2, ours.text()


def test_a_loop_whose_body_ends_in_a_read_is_one_recording():
    def body(x):
        turns = 0
        while x.abs().max() > 0.01:
            x = x * 0.5
            turns += 1
        return turns

    ours = replay(body)
    for size in range(2, 8):
        x = matrix(size, 3) * size * 10
        assert ours(x) == body(x)
    assert ours.info()["recordings"] <= 4, ours.text()


def test_operators_are_matched_and_not_run():
    ours = replay(lambda x: ((x + 1) * 2).relu().sum(1))
    x = matrix(3, 4)
    for _ in range(3):
        ours(x)
    before = counts()
    ours(x)
    after = counts()
    assert after["matched_operators"] - before["matched_operators"] == 4
    assert after["hits"] - before["hits"] == 1 and after["launches"] > before["launches"]


def test_a_stored_tensor_is_an_ordinary_one():
    kept = {}

    def body(x):
        kept["y"] = x * 2
        return kept["y"] + 1

    ours = replay(body)
    for _ in range(3):
        x = matrix(2, 3)
        ours(x)
        y = kept["y"]
        assert type(y) is torch.Tensor and torch.equal(y, x * 2) and y.data_ptr() and y.stride() == (3, 1)
        assert not torch._C._dispatch_keys(y).has(torch._C._dispatch_key_parse("DeferredInit"))
        y.requires_grad_()
        (y * 3).sum().backward()
        assert torch.equal(y.grad, torch.full_like(x, 3))
        assert torch.equal(torch.from_numpy(y.detach().numpy()), x * 2)


def test_the_same_object_comes_back():
    ours = replay(lambda x: x)
    x = matrix(2, 2)
    assert ours(x) is x
    both = replay(lambda x: [x + 1] * 2)
    for _ in range(3):
        a, b = both(x)
        assert a is b


def test_methods_modules_and_attributes():
    class Thing:
        scale = 3

        @escapement.jit(mode="replay")
        def run(self, x):
            return x * self.scale

    thing = Thing()
    assert torch.equal(thing.run(torch.ones(2)), torch.full((2,), 3.0))
    thing.scale = 4
    assert torch.equal(thing.run(torch.ones(2)), torch.full((2,), 4.0))
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    fast = replay(model)
    assert fast.training and "escapement.jit" in repr(fast)
    with torch.no_grad():
        for rows in (1, 3, 5, 0, 7):
            x = matrix(rows, 4)
            assert torch.allclose(fast(x), model(x), atol=1e-6)
        model[0].weight = torch.nn.Parameter(torch.zeros(8, 4))
        assert torch.allclose(fast(x), model(x), atol=1e-6)
    assert fast.info()["recordings"] <= 3, fast.text()


def test_training_steps_are_eagers():
    def step(model, optimiser, x):
        loss = model(x * 2 + 1).pow(2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    def make():
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        return model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    fast, ours, theirs = replay(step), make(), make()
    for rows in (3, 5, 3, 2):
        assert fast(*ours, matrix(rows, 4)) == pytest.approx(step(*theirs, matrix(rows, 4)))
    for mine, other in zip(ours[0].parameters(), theirs[0].parameters()):
        assert torch.allclose(mine, other)


def test_a_call_inside_a_call_is_part_of_it():
    inner = replay(lambda x: x.relu() + 1)
    outer = replay(lambda x: inner(x * 2) * 3)
    for size in (2, 3, 4):
        x = matrix(size, 3)
        assert torch.equal(outer(x), ((x * 2).relu() + 1) * 3)
    assert inner.info()["recordings"] == 0 and outer.info()["recordings"] == 1


def test_call_mode_inside_replay_mode_and_the_other_way():
    inner = escapement.jit(lambda x: x.relu() + 1)
    outer = replay(lambda x: inner(x * 2) * 3)
    for size in (2, 3, 4):
        x = matrix(size, 3)
        assert torch.equal(outer(x), ((x * 2).relu() + 1) * 3)
    replayed = replay(lambda x: x.relu() + 1)
    recorded = escapement.jit(lambda x: replayed(x * 2) * 3)
    for size in (2, 3, 4):
        x = matrix(size, 3)
        assert torch.equal(recorded(x), ((x * 2).relu() + 1) * 3)
    assert recorded.info()["recordings"] == 1


def test_threads():
    ours = replay(lambda x, y: (x * 2 + y).relu().sum(1))
    wrong = []

    def work(seed):
        for i in range(30):
            x, y = matrix(seed, 2 + i % 4), matrix(seed, 2 + i % 4)
            if not torch.allclose(ours(x, y), (x * 2 + y).relu().sum(1), atol=1e-6):
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2, 6)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


def test_a_pending_tensor_on_another_thread():
    def body(x):
        y, found = x * 2, []
        thread = threading.Thread(target=lambda: found.append((y + 1, y.shape, float(y.sum()))))
        thread.start()
        thread.join()
        return found[0][0] * y, found[0][1], found[0][2]

    ours = replay(body)
    for size in (2, 3, 4, 5):
        assert_same(ours(matrix(size, 3)), body(matrix(size, 3)))


def test_default_dtype_changes():
    def body(x):
        return torch.zeros(3) + torch.arange(3) / 2 + x

    ours = replay(body)
    try:
        for dtype in (torch.float32, torch.float64, torch.float32, torch.float64):
            torch.set_default_dtype(dtype)
            assert_same(ours(torch.ones(3)), body(torch.ones(3)))
    finally:
        torch.set_default_dtype(torch.float32)


def test_branches_are_bounded():
    values = iter(range(10_000))
    functions = [torch.relu, torch.tanh, torch.sigmoid, torch.exp, torch.abs, torch.neg, torch.sin, torch.cos]

    def body(x):
        for _ in range(3):
            x = functions[next(values) * 7 % 8](x + 1)
        return x.clamp(-3, 3).unsqueeze(next(values) % 2).sum()

    ours = replay(body, max_recordings=2)
    for _ in range(200):
        ours(matrix(2, 2))
    assert ours.info()["operators"] < 16384 and ours.info()["recordings"] < 200


def test_functions_of_more_operators_than_a_segment():
    def body(x, n):
        for i in range(n):
            x = x * 0.999 + 0.001
        return x

    ours = replay(body)
    for n in (700, 700, 700, 1300, 1300):
        assert torch.allclose(ours(matrix(3, 3), n), body(matrix(3, 3), n), atol=1e-5)
    assert ours.info()["fallbacks"].get("too_many_recordings", 0) == 0


def test_bad_arguments_and_options():
    with pytest.raises(escapement.OptionError, match="dims="):
        escapement.jit(len, mode="replay", dims=["n"])
    with pytest.raises(escapement.OptionError, match="check="):
        escapement.jit(len, mode="replay", check="first")
    off = replay(lambda x: x + 1, disable=True)
    assert torch.equal(off(torch.ones(2)), torch.full((2,), 2.0)) and off.info()["recordings"] == 0
    ours = replay(lambda x: x + 1)
    ours(torch.ones(2))
    ours.clear()
    assert ours.info()["calls"] == 0


GOLDEN = """\
replay of test_the_tree_as_text.<locals>.body: 4 calls, 3 recordings
  branch 1:
    v0 = aten::mul.Tensor(x0, 2)
    v1 = aten::sum(v0)
    v2 = aten::gt.Scalar(v1, 0)
    launch of 3 operators: v0, v2 by 1 kernels, 3 times
  branch 2:
    v0 = aten::exp(x0)
    v1 = aten::add.Tensor(v0, 1, 1)
    launch of 2 operators: v1 by 1 kernels, 1 times
  branch 3:
    v0 = aten::relu(x0)
    launch of 1 operators: v0 by 1 kernels, 1 times
"""


def test_the_tree_as_text():
    signs = iter([1, 1, -1, -1, 1])

    def body(x):
        y = x * 2
        if y.sum() > 0:
            return y.exp() + 1
        return y.relu()

    ours = replay(body)
    for sign in (1, 1, -1, -1):
        report = escapement.explain(ours)(torch.full((2, 3), float(sign)))
    assert str(report) == ours.text() == GOLDEN, ours.text()


def test_call_mode_goes_on_in_replay_mode_after_its_budget():
    def body(x, scale=2):
        y = x
        for i in range(x.shape[0]):   # an exact read: each value is a recording
            y = torch.tanh(y * scale + i)
        return {"y": y, "sum": y.sum(1)}

    ours = escapement.jit(body, max_recordings=2)
    for rows in (2, 3, 4, 5, 4, 5, 4, 5, 4, 6, 4):
        x = matrix(rows, 3)
        mine, other = ours(x), body(x)
        assert_same(mine["y"], other["y"])
        assert_same(mine["sum"], other["sum"])
    before = counts()
    x = matrix(4, 7)
    assert_same(ours(x)["y"], body(x)["y"])
    after = counts()
    assert after["hits"] - before["hits"] == 1 and after["recordings"] == before["recordings"]
    assert after["matched_operators"] - before["matched_operators"] == 13
    assert ours.info()["regions"][0]["fallbacks"]["too_many_recordings"] > 0


def random_host(seed):
    """Host code that decides anew in every call what to do with what it has."""
    def run(x, step, kept):
        dice = random.Random(seed * 1000 + step % 7)
        have, reads = [x, x + 1], []
        for _ in range(dice.randrange(4, 14)):
            one_step(dice, have, reads, step)
            kept["last"] = have[-1]
        return have, reads
    return run


def one_step(dice, have, reads, step):
    a, b, kind = dice.choice(have), dice.choice(have), dice.randrange(15)
    if kind == 0:
        have.append(torch.tanh(a) * dice.choice([0.5, 2, step % 5, 1.0 / (step + 1)]))
    elif kind == 1 and a.shape == b.shape:
        have.append(a + b)
    elif kind == 2:
        have.append(a.t() if a.dim() == 2 else a.unsqueeze(0))
    elif kind == 3:
        have.append(a.reshape(-1))
    elif kind == 4:
        a.mul_(0.5)
    elif kind == 5:
        reads.append(float(a.sum()))
    elif kind == 6 and a.dim() and a.shape[0] > 1:
        have.append(a[1:])
    elif kind == 7 and a.dim() and a.shape[0]:
        have.append(a[0])
    elif kind == 8:
        have.append(a.sum(-1, keepdim=True) + a if a.dim() else a + 1)
    elif kind == 9:
        have.append(torch.cat([a.reshape(-1), b.reshape(-1)])[: 1 + step % 4])
    elif kind == 10 and a.dim() == 2:
        have.append(torch.softmax(a @ a.t(), -1))
    elif kind == 11:
        reads.append(a.numpy().shape)
    elif kind == 12 and len(have) > 3:
        del have[dice.randrange(2, len(have))]
    elif kind > 12:
        have.append(a.clone())


@pytest.mark.parametrize("seed", range(12))
def test_random_host_code(seed):
    ours, theirs, mine, other = replay(random_host(seed)), random_host(seed), {}, {}
    with torch.no_grad():
        for step in range(20):
            dice = random.Random(seed * 77 + step)
            shape = dice.choice([0, 1, 2, 3, 5, 8]), dice.choice([1, 2, 3, 7])
            x, y = matrix(*shape), matrix(*shape)
            (have, reads), (expected, expected_reads) = ours(x, step, mine), theirs(y, step, other)
            assert_same(reads, expected_reads)
            for a, b in zip([x, mine["last"], *have], [y, other["last"], *expected]):
                assert a.shape == b.shape and torch.allclose(a, b, rtol=1e-4, atol=1e-4, equal_nan=True)


def test_a_transform_that_asks_while_operators_are_pending():
    """torch.func's fallbacks look at the strides of a result from within the transform: what is pending then runs below it."""
    def program(x):
        return torch.argwhere(x * 2)

    function = escapement.jit(program, mode="replay")
    for shape in ((2, 1, 1), (1, 1, 1), (3, 0, 1), (2, 1, 1)):
        x = torch.ones(shape)
        assert torch.equal(torch.func.vmap(function)(x), torch.func.vmap(program)(x))
