"""Dropout in training: what it keeps, and the state of the generator behind it, are eager's, and what stands around it is one kernel with it."""
import pytest
import torch
import torch.nn.functional as F

import escapement

SHAPES = [(7, 11), (64, 513), (1,), (5, 13, 1), (63,), (64,), (65,), (2, 1, 312), (4999,), (7, 11)]
TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def drawn(function, x, seed, before):
    torch.manual_seed(seed)
    torch.rand(before)   # so that the generator stands anywhere in its block, at odd words too
    result = function(x)
    return result, torch.get_rng_state(), torch.randn(3), torch.rand(2, dtype=torch.float64)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("p", [1e-9, 0.1, 0.5, 1 - 1e-9])
def test_the_numbers_are_eagers(p, dtype):
    def function(x):
        return F.dropout(x * 2, p) + 1

    compiled = escapement.jit(function)
    for seed, shape in enumerate(SHAPES):
        x = torch.randn(shape).to(dtype)
        for before in (0, 1, 311, 624):
            for got, expected in zip(drawn(compiled, x, seed, before), drawn(function, x, seed, before)):
                assert torch.equal(got, expected), (shape, before)
    info = compiled.info()["regions"][0]
    assert info["recordings"] == len({len(shape) for shape in SHAPES}) and sum(version["hits"] for version in info["versions"]) >= 30, info


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_nothing_or_everything_is_dropped(p):
    compiled = escapement.jit(lambda x: F.dropout(x, p) + 1)
    for shape in SHAPES:
        x = torch.randn(shape)
        for got, expected in zip(drawn(compiled, x, 1, 1), drawn(lambda x: F.dropout(x, p) + 1, x, 1, 1)):
            assert torch.equal(got, expected), shape


def test_of_nothing_the_argument_comes_back():
    compiled = escapement.jit(lambda x: F.dropout(x, 0.5))
    for shape in [(3, 4), (0, 4), (5, 2), (3, 0), (3, 4)]:
        x = torch.randn(shape)
        assert (compiled(x) is x) == (x.numel() == 0), shape


@pytest.mark.parametrize("turned", [lambda x: x.t(), lambda x: x[:, ::2], lambda x: x.flip(0).t(), lambda x: x[:1].expand(5, -1)])
def test_turned_arguments_are_drawn_in_their_order(turned):
    def function(x):
        return F.dropout(turned(x), 0.3)

    compiled = escapement.jit(function)
    for shape in [(6, 10), (17, 33), (1, 8), (6, 10)]:
        x = torch.randn(shape)
        for got, expected in zip(drawn(compiled, x, 3, 0), drawn(function, x, 3, 0)):
            assert torch.equal(got, expected) and got.stride() == expected.stride(), shape


def test_two_of_them_draw_twice_and_what_nobody_uses_draws_too():
    def function(x):
        F.dropout(x, 0.2)
        return F.dropout(x, 0.5) + F.dropout(x, 0.5)

    compiled = escapement.jit(function)
    for shape in SHAPES:
        x = torch.randn(shape)
        for got, expected in zip(drawn(compiled, x, 4, 1), drawn(function, x, 4, 1)):
            assert torch.equal(got, expected), shape


def test_gradients_use_the_same_mask_in_one_kernel():
    def function(x, y):
        return (F.dropout(x * 2, 0.1) + y).relu()

    compiled, plain = torch.compile(function, backend="escapement"), torch.compile(function, backend="aot_eager", dynamic=True)
    before = escapement.stats()["recordings"]
    for shape in [(8, 9), (64, 33), (3, 1), (100, 7)]:
        x, y = torch.randn(shape, requires_grad=True), torch.randn(shape)
        states = []
        for each in (compiled, plain):
            torch.manual_seed(5)
            result = each(x, y)
            states.append((result.detach(), *torch.autograd.grad(result.sum(), x), torch.get_rng_state()))
        assert all(torch.equal(a, b) for a, b in zip(*states)), shape
    assert escapement.stats()["recordings"] == before + 2   # forward and backward
