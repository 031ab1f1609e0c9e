"""Programs that catch what an operator raises and go on: whatever makes it raise, a size, a layout, a value, is not the recording's to keep.

ROWS: an expression of `x` that raises at some of its calls and does not at others. Each is called from either end of the calls, twice, in call
and in replay mode, against eager.
"""

import pytest
import torch
import torch.nn.functional as F

import escapement

pytestmark = pytest.mark.usefixtures("fresh")


def sizes(*ns):
    return [lambda n=n: torch.arange(1.0, n + 1) for n in ns]


def rows(*ns):
    return [lambda n=n: torch.arange(1.0, 2 * n + 1).reshape(n, 2) for n in ns]


def values(*texts):
    return [lambda t=t: torch.tensor(t) for t in texts]


def layouts():
    return [lambda: torch.arange(6.0).view(2, 3), lambda: torch.arange(6.0).view(3, 2).t()]


MIXED = (3, 6, 1, 0, 2, 6, 12)
ROWS = {
    # a size or a layout decides
    "x.view(2, 3)": sizes(*MIXED),
    "x.reshape(2, -1)": sizes(*MIXED),
    "x.unflatten(0, (2, -1))": sizes(*MIXED),
    "torch.zeros(2, 3).view(-1, x.shape[0])": sizes(*MIXED),
    "x + torch.ones(6)": sizes(*MIXED),
    "x.clone().add_(torch.ones(6))": sizes(*MIXED),
    "x.clone().copy_(torch.ones(2))": sizes(*MIXED),
    "x.expand(6)": sizes(*MIXED),
    "x.expand(2, 6).sum(0)": sizes(*MIXED),
    "torch.where(x > 1, x, torch.ones(3))": sizes(*MIXED),
    "torch.lerp(x, torch.ones(3), 0.5)": sizes(*MIXED),
    "torch.stack([x, torch.ones(6)])": sizes(*MIXED),
    "torch.cat([x[None], torch.ones(1, 6)])": sizes(*MIXED),
    "x @ torch.ones(6)": sizes(*MIXED),
    "torch.ones(4, 6) @ x": sizes(*MIXED),
    "torch.mm(x[None], torch.ones(6, 2))": sizes(*MIXED),
    "torch.bmm(x[None, None], torch.ones(1, 3, 2))": sizes(*MIXED),
    "F.linear(x, torch.ones(2, 6))": sizes(*MIXED),
    "torch.einsum('i,i->', x, torch.ones(6))": sizes(*MIXED),
    "torch.tensordot(x, torch.ones(6), 1)": sizes(*MIXED),
    "torch.outer(x, x).inverse()": sizes(*MIXED),
    "x[5]": sizes(*MIXED),
    "x[-3]": sizes(*MIXED),
    "x.select(0, 2)": sizes(*MIXED),
    "x.narrow(0, 1, 3)": sizes(*MIXED),
    "x.narrow(0, x.shape[0] - 3, 3)": sizes(*MIXED),
    "x[torch.tensor([0, 4])]": sizes(*MIXED),
    "x.index_select(0, torch.tensor([0, 4]))": sizes(*MIXED),
    "x.gather(0, torch.tensor([2]))": sizes(*MIXED),
    "x.take(torch.tensor([2]))": sizes(*MIXED),
    "x.index_fill(0, torch.tensor([2]), 1.5)": sizes(*MIXED),
    "x.scatter(0, torch.tensor([2]), 1.5)": sizes(*MIXED),
    "x.index_add(0, torch.tensor([2]), torch.ones(1))": sizes(*MIXED),
    "x[x > 0][2]": sizes(*MIXED),
    "x.masked_fill(torch.ones(3, dtype=torch.bool), 0)": sizes(*MIXED),
    "x.split([1, 2])[1]": sizes(*MIXED),
    "x.split([2, x.shape[0] - 2])[1]": sizes(*MIXED),
    "x.chunk(3)[2]": sizes(*MIXED),
    "x.tensor_split(3)[2][1]": sizes(*MIXED),
    "x.unbind(0)[2]": sizes(*MIXED),
    "x.max(0).values": sizes(*MIXED),
    "x.argmax(0)": sizes(*MIXED),
    "x.amax()": sizes(*MIXED),
    "x.min()": sizes(*MIXED),
    "x.topk(3).values": sizes(*MIXED),
    "x.kthvalue(2).values": sizes(*MIXED),
    "x.quantile(0.5)": sizes(*MIXED),
    "x.unfold(0, 3, 1)": sizes(*MIXED),
    "x.as_strided((3,), (1,)) * 1": sizes(*MIXED),
    "F.pad(x, (-2, 0))": sizes(*MIXED),
    "F.pad(x[None], (2, 2), mode='reflect')": sizes(*MIXED),
    "F.avg_pool1d(x[None], 3)": sizes(*MIXED),
    "F.max_pool1d(x[None], 3)": sizes(*MIXED),
    "F.conv1d(x[None, None], torch.ones(1, 1, 3))": sizes(*MIXED),
    "F.layer_norm(x, (6,))": sizes(*MIXED),
    "F.group_norm(x[None], 3).round(decimals=3)": sizes(*MIXED),
    "F.interpolate(x[None, None], scale_factor=0.4)": sizes(*MIXED),
    "F.pixel_shuffle(x.view(-1, 1, 1), 2)": sizes(4, 3, 8, 1, 0, 5),
    "F.glu(x)": sizes(*MIXED),
    "F.cosine_similarity(x, torch.ones(3), dim=0)": sizes(*MIXED),
    "F.mse_loss(x, torch.ones(5, 6))": sizes(*MIXED),
    "torch.arange(3 - x.shape[0])": sizes(*MIXED),
    "torch.zeros(3 - x.shape[0])": sizes(*MIXED),
    "torch.ones(4).view(x.shape[0], -1)": sizes(*MIXED),
    "x.new_full((x.shape[0] - 2,), 1)": sizes(*MIXED),
    "torch.linspace(0, x.shape[0] - 3, x.shape[0] - 2)": sizes(*MIXED),
    "x.repeat(2 - x.shape[0])": sizes(*MIXED),
    "x.repeat_interleave(torch.tensor([1, 2, 1]))": sizes(*MIXED),
    "x.view(torch.float64)": sizes(*MIXED),
    "x.item() + torch.ones(1)": sizes(*MIXED),
    "torch.ones(1) if x else torch.zeros(1)": sizes(*MIXED),
    "float(x) + torch.ones(1)": sizes(*MIXED),
    "torch.ones(1) * (6 // x.shape[0])": sizes(*MIXED),
    "torch.ones(1) * (6 % x.shape[0])": sizes(*MIXED),
    "torch.ones(1) * (1 / x.shape[0])": sizes(*MIXED),
    "torch.ones(1) * [1, 2, 3, 4][x.shape[0]]": sizes(*MIXED),
    "torch.ones(1) * {3: 1, 6: 2}[x.shape[0]]": sizes(*MIXED),
    "torch.ones(torch.broadcast_shapes(x.shape, (6,)))": sizes(*MIXED),
    "checked(x.shape[0] > 2, x)": sizes(*MIXED),
    "sum(pair(x))": sizes(*MIXED),
    "x.view(-1)": layouts(),
    "x.view(6) + x.stride(0)": layouts(),
    "x.view(3, 2)": layouts(),
    "x.clone().cholesky()": [lambda n=n: torch.eye(n)[:, :3] for n in (3, 4, 2)],
    "torch.linalg.det(x)": [lambda n=n: torch.eye(n)[:, :3] for n in (3, 4, 2)],
    "x.cross(x, dim=0)": rows(3, 2, 4, 1),
    "x.squeeze(0).t().contiguous().view(2, 3)": rows(3, 2, 4, 1, 0),
    # a value decides
    "torch.linalg.cholesky(x)": values([[1.0, 0], [0, 1]], [[-1.0, 0], [0, 1]], [[2.0, 0], [0, 1]]),
    "torch.linalg.inv(x)": values([[1.0, 0], [0, 1]], [[0.0, 0], [0, 0]], [[2.0, 0], [0, 1]]),
    "torch.linalg.solve(x, x)": values([[1.0, 0], [0, 1]], [[0.0, 0], [0, 0]], [[2.0, 0], [0, 1]]),
    "torch.ones(3)[x]": values([0, 1], [3, 0], [2, 2], [-4, 1]),
    "torch.ones(3).gather(0, x)": values([0, 1], [3, 0], [2, 2], [-4, 1]),
    "torch.ones(3).index_select(0, x)": values([0, 1], [3, 0], [2, 2], [-4, 1]),
    "torch.ones(3).take(x)": values([0, 1], [3, 0], [2, 2], [-4, 1]),
    "torch.ones(3).scatter(0, x, 2.0)": values([0, 1], [3, 0], [2, 2], [-4, 1]),
    "torch.zeros(3).scatter_add_(0, x, torch.ones(2))": values([0, 1], [3, 0], [2, 2], [-4, 1]),
    "torch.zeros(3).index_add(0, x, torch.ones(2))": values([0, 1], [3, 0], [2, 2], [-4, 1]),
    "F.embedding(x, torch.ones(3, 2))": values([0, 1], [3, 0], [2, 2], [-4, 1]),
    "F.one_hot(x, 3)": values([0, 1], [3, 0], [2, 2], [-4, 1]),
    "F.one_hot(x)": values([0, 1], [3, 0], [2, 2], [-4, 1]),
    "F.nll_loss(torch.ones(2, 3), x)": values([0, 1], [3, 0], [2, 2], [-4, 1]),
    "F.cross_entropy(torch.ones(2, 3), x)": values([0, 1], [3, 0], [2, 2], [-4, 1]),
    "x.bincount()": values([0, 1], [3, 0], [2, 2], [-4, 1]),
    "torch.ones(3)[x[0].item()]": values([0, 1], [3, 0], [2, 2], [-4, 1]),
    "torch.zeros(x[0].item())": values([0, 1], [3, 0], [2, 2], [-4, 1]),
    "torch.ones(2).split(x.tolist())[0]": values([0, 2], [1, 1], [3, 0], [-4, 1]),
    "torch.repeat_interleave(torch.ones(2), x)": values([0, 1], [3, 0], [2, 2], [-4, 1]),
    "torch.ones(4).masked_scatter(x, torch.ones(2))": values([True, False, True, False], [True, True, True, False], [False] * 4),
    "torch.multinomial(x, 1).sum() * 0": values([0.5, 0.5], [0.0, 0.0], [-1.0, 2.0], [1.0, 0.0]),
    "torch.bernoulli(x) * 0": values([0.5, 0.5], [2.0, 0.0], [1.0, 0.0]),
    "torch.ones(1) * int(x)": values(1.0, float("inf"), float("nan"), 3.0),
    "torch.ones(1) / (1 / int(x))": values(1, 0, 2),
    "torch.zeros(2, dtype=torch.uint8).fill_(x.item())": values(3, 300, 7, -200),
    "F.binary_cross_entropy(x, torch.ones(2))": values([0.5, 0.5], [2.0, 0.0], [1.0, 0.0]),
    "F.max_unpool1d(torch.ones(1, 2), x[None], 2)": values([0, 1], [9, 0], [2, 2]),
    "F.ctc_loss(torch.zeros(4, 1, 3), torch.tensor([[1, 2]]), x, torch.tensor([2]))": values([4], [9], [3]),
}


def caught_exceptions():
    return sum(count for name, count in escapement.stats().items() if "caught_exception" in name)


def checked(truth, x):
    assert truth
    return x * 3


def pair(x):
    a, b = x
    return a, b


def program(expression):
    code = compile(expression, expression, "eval")

    def caught(x):
        y = x * 2
        try:
            return eval(code, {**globals(), "x": x}), y
        except Exception as error:
            return type(error).__name__, y - 1

    return caught


def assert_same(found, expected):
    assert type(found[0]) is type(expected[0]), (found, expected)
    if isinstance(expected[0], str):
        assert found[0] == expected[0]
    else:
        torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(found[1], expected[1], rtol=0, atol=0, equal_nan=True)


def run(expression, wrap):
    for turn in (1, -1):
        torch._dynamo.reset()
        caught, calls = program(expression), ROWS[expression][::turn]
        fast = wrap(caught)
        for make in calls * 2:
            with torch.no_grad():
                assert_same(fast(make()), caught(make()))


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("expression", ROWS)
def test_own_tracer(expression, mode):
    run(expression, lambda f: escapement.jit(f, mode=mode))


def behind(effect, expression):
    """What can be seen has happened when it raises, so it cannot be made again."""
    first, code = compile(effect, effect, "exec"), compile(expression, expression, "eval")

    def caught(x, w):
        exec(first, {**globals(), "w": w})
        try:
            return eval(code, {**globals(), "x": x}), w * 2
        except Exception as error:
            return type(error).__name__, w - 1

    return caught


@pytest.mark.parametrize("effect", ["w.add_(1)", "w[1:].mul_(2)", "w.bernoulli_(0.5)", "torch.rand(2)"])
@pytest.mark.parametrize("expression", ROWS)
def test_behind_an_effect(expression, effect):
    for turn in (1, -1):
        caught, fast = behind(effect, expression), escapement.jit(behind(effect, expression))
        for make in ROWS[expression][::turn] * 2:
            ours, theirs = torch.ones(3), torch.ones(3)
            with torch.no_grad():
                torch.manual_seed(1)
                found = fast(make(), ours)
                torch.manual_seed(1)
                assert_same(found, caught(make(), theirs))
            assert torch.equal(ours, theirs)


def test_a_with_block_catches_nothing():
    def step(x, w):
        w.add_(1)
        with torch.no_grad(), torch.profiler.record_function("part"):
            return x @ x.t() + w.sum()

    fast = escapement.jit(step)
    for n in (3, 5, 1, 0, 7):
        x, w = torch.arange(2.0 * n).view(n, 2), torch.ones(2)
        assert torch.equal(fast(x, w), step(x, torch.ones(2))) and w[0] == 2
    region, = fast.info()["regions"]
    assert [version["hits"] for version in region["versions"]] == [4], region


PENDING = {
    "view": lambda x, w: (w.view(-1), torch.isinf(x)),
    "reads what is written": lambda x, w: (w.view(-1), x + w.sum()),
    "several": lambda x, w: (w, (x * 2).relu() + 1),
}
LAST = {
    "add": lambda w, v: w.add_(v),
    "copy": lambda w, v: w.copy_(v),
    "index": lambda w, v: w.index_fill_(0, torch.tensor([0, v.shape[0]]), 1),
}


@pytest.mark.parametrize("before", PENDING)
@pytest.mark.parametrize("last", LAST)
def test_replay_mode_keeps_what_was_pending_before_a_write_that_raises(before, last):
    def step(x, w):
        written, value = PENDING[before](x, w)
        try:
            LAST[last](written, value)
        except (RuntimeError, IndexError):
            return value, "raised"
        return value, w * 2

    for sizes in ((1, 1, 0, 1, 0, 2), (0, 0, 1, 0, 1), (2, 1, 1, 1, 0, 0, 2, 1)):
        fast = escapement.jit(step, mode="replay")
        for n in sizes:
            x, ours, theirs = torch.arange(float(n)), torch.ones(1), torch.ones(1)
            with torch.no_grad():
                (found, after), (expected, then) = fast(x, ours), step(x, theirs)
            assert torch.equal(found, expected) and torch.equal(ours, theirs)
            assert after == then if isinstance(then, str) else torch.equal(after, then)


def test_what_does_not_raise_is_compiled():
    caught = program("x.view(2, -1)")
    fast = escapement.jit(caught)
    with torch.no_grad():
        for n in (4, 6, 3, 8, 5, 10):
            assert_same(fast(torch.ones(n)), caught(torch.ones(n)))
    region, = fast.info()["regions"]
    assert [version["hits"] for version in region["versions"]] == [3], region      # 6, 8 and 10
    assert region["fallbacks"] == {"caught_exception": 2} and not fast.info()["eager"]


def test_what_raises_again_and_again_goes_on_in_replay_mode():
    caught = program("x.view(2, -1)")
    fast = escapement.jit(caught, max_recordings=4)
    with torch.no_grad():
        for n in (3, 5, 7, 9, 11, 13, 4, 6, 8):
            assert_same(fast(torch.ones(n)), caught(torch.ones(n)))
    assert fast.info()["recordings"] == 4


@pytest.mark.parametrize("expression", ["torch.ones(3)[x]", "torch.linalg.cholesky(x)"])
def test_compiled_code_that_refuses_leaves_it_to_the_program(expression):
    caught = program(expression)
    fast = escapement.jit(caught)
    before = caught_exceptions()
    with torch.no_grad():
        for make in ROWS[expression] * 2:
            assert_same(fast(make()), caught(make()))
    assert fast.info()["recordings"] == 1 and caught_exceptions() > before


@pytest.mark.parametrize("expression", ROWS)
def test_both_ends_happen(expression):
    with torch.no_grad():
        raised = {isinstance(program(expression)(make())[0], str) for make in ROWS[expression]}
    assert raised == {True, False}
