"""Programs without an effect that go on as their values say: loops until something has converged, early ends, choices between ways. Versions of such
a program differ only behind a check of a value, so each would run up to there in vain, one after the other. Where that comes again and again they
become one tree."""

import pytest
import torch

import escapement
from test_trace_tree import same, stats


def until_small(x):
    while x.abs().max() > 1:
        x = (x + x.roll(1, 0)) / 3
    return x


def until_settled(x):
    for rounds in range(12):
        y = (x + x.flip(0)) / 3
        if (y - x).abs().sum() < 2:
            return y, rounds
        x = y
    return x, -1


def newton(x):
    guess, rounds = x.abs() + 1, 0
    while (guess * guess - x.abs()).abs().amax() > 0.5:
        guess, rounds = (guess + x.abs() / guess) / 2, rounds + 1
    return guess, rounds


def early_end(x):
    y = x.relu()
    if y.sum() < 3:
        return y
    y = y.softmax(-1)
    if y.amax() > 0.6:
        return y * 2, x
    return (y @ y.t()).sum(0)


def nested(x):
    total = x.sum()
    if total > 0:
        return (x.exp() if total > 4 else x.sin()).sum(1)
    return (x.cos() if total < -4 else x.tan()).sum(0)


def count_decides(x):
    y = x * 2
    for _ in range(int((y.sum(1) > 2).sum())):
        y = y.cumsum(-1) / 4
    return y


def number_goes_on(x):
    peak = x.abs().amax()
    steps = 0
    while peak > 1:
        peak, steps = peak / 2, steps + 1
    return x / peak, steps


def found_then_cut(x):
    rows = (x.sum(1) > 0).nonzero().squeeze(1)
    picked = x[rows]
    if picked.shape[0] == 0:
        return x
    return picked * 2 if picked.amax() > 1.5 else picked - 1


def halves(x):
    x = x.to(torch.bfloat16)
    while x.float().norm() > 2:
        x = x * 0.5
    return x


def views_held(x):
    turned = x.t()
    first = turned[0]
    if first.sum() > 1:
        return turned, first * 2
    if x.amin() < -1:
        return first, x.unsqueeze(0)
    return turned.contiguous(), x


PROGRAMS = [until_small, until_settled, newton, early_end, nested, count_decides, number_goes_on, found_then_cut, halves, views_held]


def inputs(call):
    generator = torch.Generator().manual_seed(call)
    return torch.randn(2 + call % 4, 4, generator=generator) * 2 ** (call % 5 - 1)


def compare(jitted, program, calls):
    for call in calls:
        x = inputs(call)
        same(jitted(x), program(x.clone()))
        assert torch.equal(x, inputs(call))


def run_in_vain(program, jitted, calls):
    """Versions that began a call and did not answer it."""
    before = stats()["exits"]
    compare(jitted, program, calls)
    return stats()["exits"] - before


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode], ids=lambda mode: mode.__name__)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_versions_have_in_common_runs_once(program, mode):
    with mode():
        jitted = escapement.jit(program)
        for _ in range(16):
            compare(jitted, program, range(10))
        before = stats()
        assert run_in_vain(program, jitted, range(10)) <= 10, jitted.info()   # one a call before it counts as too many, or none
        after = stats()
    moved = {name: after[name] - before[name] for name in ("recordings", "side_traces", "eager_calls", "hits")}
    assert moved == {"recordings": 0, "side_traces": 0, "eager_calls": 0, "hits": 10}, (moved, jitted.info())


@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_any_exit_may_be_taken(program, every):
    jitted = escapement.jit(program, force_exits=every)
    before = stats()
    for _ in range(4):
        compare(jitted, program, range(10))
    after = stats()
    assert after["eager_calls"] == before["eager_calls"] and after["exits"] > before["exits"]


def rounds_of(most):
    def program(x, rounds):
        for i in range(most):
            x = x.sin() + 1
            if rounds[0] <= i:
                break
        return x

    return program


def run_rounds(jitted, program, numbers, sizes=((3, 2),)):
    for rounds in numbers:
        for size in sizes:
            x, limit = torch.ones(size), torch.tensor([float(rounds)])
            same(jitted(x, limit), program(x, limit))


def test_a_loop_of_four_rounds_is_one_tree():
    program, jitted = rounds_of(6), escapement.jit(rounds_of(6))
    for _ in range(40):
        run_rounds(jitted, program, range(5))
    versions = jitted.info()["regions"][0]["versions"]
    assert [version["retired"] for version in versions if "exit" not in version] == [True] * (len(versions) - 1)
    assert "exit" in versions[-1] and jitted.info()["regions"][0]["fallbacks"] == {}


def test_the_tree_is_for_all_sizes():
    program, jitted = rounds_of(6), escapement.jit(rounds_of(6))
    for _ in range(40):
        run_rounds(jitted, program, range(5))
    before = stats()
    sizes = [(0, 2), (1, 1), (2, 0), (1, 7), (13, 1), (31, 17), (101, 3)]
    run_rounds(jitted, program, range(5), sizes)
    after = stats()
    moved = {name: after[name] - before[name] for name in ("recordings", "side_traces", "eager_calls", "hits")}
    assert moved == {"recordings": 0, "side_traces": 0, "eager_calls": 0, "hits": 5 * len(sizes)}
    assert after["launches"] - before["launches"] >= sum(rounds + 1 for rounds in range(5)) * 4
    assert jitted.info()["regions"][0]["fallbacks"] == {}


def test_too_many_rounds_go_on_in_replay_mode():
    program, jitted = rounds_of(40), escapement.jit(rounds_of(40))
    for _ in range(12):
        run_rounds(jitted, program, range(0, 38, 3))
    before = stats()
    run_rounds(jitted, program, range(0, 38, 3))
    after = stats()
    assert after["recordings"] == before["recordings"] and after["eager_calls"] == before["eager_calls"]
    assert set(jitted.info()["regions"][0]["fallbacks"]) & {"too_many_exits", "data_dependent_guard"}


def test_ways_behind_an_exit_have_their_own_inference_mode():
    def program(x, y):
        x.relu_()
        with torch.inference_mode():
            made = y + 1
        return made.t() if made.nonzero().shape[0] > 1 else made.clone()

    for order in ((0, 2, 3, 0, 5), (2, 0, 3, 0, 0)):
        jitted = escapement.jit(program)
        for n in order * 3:
            x, y = torch.ones(n), torch.ones(n)
            ours, theirs = jitted(x, y), program(x.clone(), y)
            same(ours, theirs)
            assert ours.is_inference() == theirs.is_inference(), (order, n)


def test_a_float_of_the_least_integer():
    """A relation that the algebra of sizes cannot hold ends the recording, not the program."""
    def program(x):
        x.relu_()
        return float((x / 0).to(torch.int64).max())

    jitted = escapement.jit(program)
    for n in (1, 3, 1, 2):
        assert jitted(torch.ones(n)) == program(torch.ones(n))


def test_a_check_that_seldom_fails_stays_a_check():
    def program(x):
        return x * 2 if x.sum() > 0 else x - 1

    jitted = escapement.jit(program)
    for call in range(900):
        x = torch.full((3, 2), -1.0 if call % 10 == 9 else 1.0)
        same(jitted(x), program(x))
    versions = jitted.info()["regions"][0]["versions"]
    assert len(versions) == 2 and not any("exit" in version for version in versions)
