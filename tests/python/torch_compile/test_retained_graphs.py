"""A backward that runs more than once: `retain_graph=True`, several losses of one forward, gradcheck, Jacobians row by row; and second gradients, which
torch.compile does not take, still say so."""

import pytest
import torch
import torch.nn.functional as F

import escapement

pytestmark = pytest.mark.usefixtures("fresh")


def saves_much(x, weight):
    return F.layer_norm((x @ weight).tanh().exp(), (weight.shape[1],)).softmax(-1)


def compiled(function):
    return torch.compile(function, backend="escapement")


def drawn(rows):
    generator = torch.Generator().manual_seed(rows)
    return [torch.randn(*shape, generator=generator).requires_grad_() for shape in ((rows, 4), (4, 6))]


def test_a_backward_may_run_again():
    fast = compiled(saves_much)
    for rows in (3, 5, 1, 7, 0, 11):
        inputs = drawn(rows)
        results = fast(*inputs), saves_much(*inputs)
        for turn in range(3):
            ours, eager = (torch.autograd.grad(y.square().sum(), inputs, retain_graph=True) for y in results)
            torch.testing.assert_close(ours, eager)
    stats = escapement.stats()
    assert stats["dynamo"]["compiles"] == 1 and stats["dynamo"]["specialised_dims"] == 0 and stats["launches"] > 0, stats


def test_several_losses():
    fast = compiled(saves_much)
    for rows in (2, 6):
        inputs = drawn(rows)
        gradients = []
        for function in (fast, saves_much):
            result = function(*inputs)
            gradients.append([torch.autograd.grad(result[:, column].sum(), inputs, retain_graph=column < 5) for column in range(6)])
        torch.testing.assert_close(*gradients)


def test_jacobian():
    fast = compiled(lambda x: (x * 2).tanh().cumsum(-1))
    for n in (3, 5):
        x = torch.linspace(-1, 1, n)
        ours, eager = (torch.autograd.functional.jacobian(f, x) for f in (fast, lambda x: (x * 2).tanh().cumsum(-1)))
        torch.testing.assert_close(ours, eager)


def test_gradcheck():
    fast = compiled(lambda x: (x * 2).exp().sin().sum(-1))
    for n in (2, 3, 5):
        assert torch.autograd.gradcheck(fast, torch.linspace(-1, 1, n * 2, dtype=torch.double).view(n, 2).requires_grad_())


def test_second_gradients_are_refused():
    inputs = drawn(3)
    result = compiled(saves_much)(*inputs)
    (first,) = torch.autograd.grad(result.square().sum(), inputs[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        torch.autograd.grad(first.sum(), inputs)
