"""In which mode a result was made, where it is a view of what a block under inference_mode made at some sizes and a copy at others: in every
order of sizes, since the first call decides what the next ones know."""

import itertools

import pytest
import torch

import escapement

MAKERS = {
    "reshape": lambda x: x.reshape(-1), "transposed reshape": lambda x: x.t().reshape(-1), "flatten": lambda x: x.t().flatten(),
    "contiguous": lambda x: x.t().contiguous(), "slice reshape": lambda x: x[:, :2].reshape(-1), "view": lambda x: x.view(-1),
    "expand reshape": lambda x: x.unsqueeze(0).expand(3, -1, -1).reshape(-1), "to": lambda x: x.t().to(torch.float32), "ravel": lambda x: x.t().ravel(),
    "clone": lambda x: x.t().clone(), "reshape twice": lambda x: x.t().reshape(-1).reshape(1, -1), "split": lambda x: x.split(2, 1)[0].reshape(-1),
}
SIZES = [(0, 0), (2, 2), (1, 3), (3, 1), (0, 3), (1, 1)]
FIRST = SIZES[:3]   # what is recorded: nothing, a copy, a view


def inside_then_out(maker):
    def program(a):
        with torch.inference_mode():
            made = a + 1
        return maker(made)
    return program


def all_inside(maker):
    def program(a):
        with torch.inference_mode():
            return maker(a + 1)
    return program


def argument_inside(maker):
    def program(a):
        with torch.inference_mode():
            return maker(a)
    return program


@pytest.mark.parametrize("form", [inside_then_out, all_inside, argument_inside])
@pytest.mark.parametrize("maker", MAKERS)
def test_the_mode_of_a_result(maker, form):
    program = form(MAKERS[maker])
    for first, second in itertools.permutations(FIRST, 2):
        jitted = escapement.jit(program)
        for n, m in (first, second, *SIZES):
            a = torch.ones(n, m)
            with torch.no_grad():
                theirs, ours = program(a), jitted(a)
            assert ours.is_inference() == theirs.is_inference(), (first, second, n, m)
            assert torch.equal(ours, theirs)
