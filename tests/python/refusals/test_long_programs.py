"""Loops of many thousand steps: one recording would hold all of their operators, be compiled as a whole, and cost minutes and gigabytes."""

import pytest
import torch

import escapement

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]
STEPS = 70_000


def program(x, steps=STEPS):
    for step in range(steps):
        x.add_(step % 3)
    return x + 1


@pytest.mark.slow
@torch.no_grad()
def test_a_loop_of_many_steps_runs_eagerly():
    """With eager's results, what was written among them, at once and from then on; short loops are served as before."""
    function = escapement.jit(program)
    for size in (3, 1, 0):
        ours, eager = torch.zeros(size), torch.zeros(size)
        assert torch.equal(function(ours), program(eager)) and torch.equal(ours, eager)
    region = function.info()["regions"][0]
    assert region["fallbacks"]["recorder_refused"] == 3 and region["recordings"] == 1, region


@torch.no_grad()
def test_a_loop_of_some_thousand_steps_is_one_recording():
    function = escapement.jit(lambda x: program(x, 2_000))
    for size in (3, 1, 0, 7):
        ours, eager = torch.zeros(size), torch.zeros(size)
        assert torch.equal(function(ours), program(eager, 2_000)) and torch.equal(ours, eager)
    assert function.info()["recordings"] == 1 and not function.info()["eager"]
