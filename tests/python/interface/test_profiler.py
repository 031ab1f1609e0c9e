"""torch.profiler sees calls of compiled code: a range for the call, and in it one for each kernel and library call. In processes that start with
ESCAPEMENT_PROFILE=1, so this file runs itself once more in one."""
import os
import subprocess
import sys

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import escapement
from harness import core

pytestmark = pytest.mark.skipif(not hasattr(core(), "load_exported"), reason="needs the compiled core")
inside = os.environ.get("ESCAPEMENT_PROFILE") == "1"
seen = pytest.mark.skipif(not inside, reason="runs in the process of test_all_of_this_where_the_environment_asks_for_it")


def scores(x, w):
    return torch.softmax(x @ w, -1) * 2


def profiled(call):
    """(name, start, end) of the ranges of ours, in the order in which they began."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        call()
    ours = [(e.name, e.time_range.start, e.time_range.end) for e in profiler.events() if e.name.startswith("escapement::")]
    return sorted(ours, key=lambda e: (e[1], -e[2]))


@pytest.fixture
def compiled():
    with torch.no_grad():
        yield escapement.jit(scores)


@seen
def test_a_call_a_kernel_and_a_library_call(compiled):
    x, w = torch.randn(4, 8), torch.randn(8, 3)
    compiled(x, w), compiled(x, w)
    names = [name for name, *_ in profiled(lambda: compiled(x, w))]
    assert names[0] == "escapement::scores" and len(names) >= 3, names
    assert any(name.startswith("escapement::call(aten::") for name in names), names
    assert any(name.startswith("escapement::k0_") for name in names), names


@seen
def test_steps_lie_in_their_call_one_after_the_other(compiled):
    x, w = torch.randn(64, 80), torch.randn(80, 30)
    compiled(x, w), compiled(x, w)
    (_, start, end), *steps = profiled(lambda: compiled(x, w))
    assert all(start <= begin <= stop <= end for _, begin, stop in steps)
    assert all(before[2] <= after[1] for before, after in zip(steps, steps[1:], strict=False))


@seen
def test_each_call_has_its_range_and_the_results_are_the_same(compiled):
    w = torch.randn(8, 3)
    for n in (4, 5):
        compiled(torch.randn(n, 8), w)
    results = {}
    ranges = profiled(lambda: results.update({n: compiled(torch.full((n, 8), 0.5), w) for n in (1, 3, 0, 7)}))
    assert [name for name, *_ in ranges].count("escapement::scores") == 4
    assert all(torch.equal(compiled(torch.full((n, 8), 0.5), w), found) for n, found in results.items())


@seen
def test_a_call_that_ends_with_an_error_leaves_no_range_open(compiled):
    table = torch.randn(5, 3)
    gather = escapement.jit(lambda rows: table[rows] * 2)
    with torch.no_grad():
        gather(torch.tensor([1])), gather(torch.tensor([2, 3]))

        def wrong():
            with pytest.raises((IndexError, RuntimeError)):
                gather(torch.tensor([7]))

        profiled(wrong)
        names = [name for name, *_ in profiled(lambda: gather(torch.tensor([4])))]
    assert sum(name == "escapement::<lambda>" or "lambda" in name for name in names) == 1, names


@seen
def test_replayed_segments_have_ranges():
    with torch.no_grad():
        replayed = escapement.jit(scores, mode="replay")
        x, w = torch.randn(4, 8), torch.randn(8, 3)
        for _ in range(4):
            replayed(x, w)
        names = [name for name, *_ in profiled(lambda: replayed(x, w))]
    assert any(name.startswith("escapement::k") for name in names), names


@pytest.mark.skipif(inside, reason="is in it")
def test_all_of_this_where_the_environment_asks_for_it():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(command, env=os.environ | {"ESCAPEMENT_PROFILE": "1"}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "5 passed" in done.stdout, done.stdout[-3000:]


@pytest.mark.skipif(inside, reason="is in it")
def test_elsewhere_there_are_no_ranges(compiled):
    x, w = torch.randn(4, 8), torch.randn(8, 3)
    compiled(x, w), compiled(x, w)
    assert profiled(lambda: compiled(x, w)) == []
