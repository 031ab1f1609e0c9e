"""A view that the program makes in replay mode and then asks gradients of: what is computed from it has a graph, as in eager."""

import pytest
import torch

import escapement

VIEWS = {
    "of a computed": lambda x: (x + 1).view(-1), "of an argument": lambda x: x.view(-1), "picked": lambda x: (x + 1)[0], "turned": lambda x: (x * 2).t(),
}


def gradient_of(view):
    def program(x):
        leaf = view(x).requires_grad_(True)
        return torch.autograd.grad((leaf ** 2).sum(), leaf)[0]

    return program


@pytest.mark.parametrize("name", VIEWS)
def test_gradients_of_a_view(name):
    program = gradient_of(VIEWS[name])
    function = escapement.jit(program, mode="replay")
    for rows in (2, 2, 3, 1):
        x = torch.rand(rows, 2)
        torch.testing.assert_close(function(x), program(x))


@pytest.mark.parametrize("name", VIEWS)
def test_whether_a_view_wants_gradients_in_later_calls(name):
    def program(x):
        leaf = VIEWS[name](x).requires_grad_(True)
        return (leaf * 2).requires_grad, leaf.requires_grad

    function = escapement.jit(program, mode="replay")
    function(torch.rand(2, 2))
    for rows in (2, 3, 1):
        x = torch.rand(rows, 2)
        assert function(x) == program(torch.rand(rows, 2)) == (True, True)


@pytest.mark.parametrize("mode", ["call", "replay"])
def test_gradients_of_what_is_no_view(mode):
    def program(x):
        leaf = (x + 1).requires_grad_(True)
        return torch.autograd.grad((leaf ** 2).sum(), leaf)[0]

    function = escapement.jit(program, mode=mode)
    for rows in (2, 3, 1):
        x = torch.rand(rows, 2)
        torch.testing.assert_close(function(x), program(x))
