"""Dropout in training: what it keeps, and the state of the generator behind it, are eager's, and what stands around it is one kernel with it."""
import pytest
import torch
import torch.nn.functional as F

import escapement

SHAPES = [(7, 11), (64, 513), (0, 5), (1,), (5, 13, 1), (63,), (64,), (65,), (2, 1, 312), (191,), (192,), (4999,), (7, 11)]
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
    for version in info["versions"]:   # one kernel behind the drawing
        assert [kernel["launches"] for kernel in version["kernels"]] == [1] and [call["target"] for call in version["calls"]] == ["escapement::random_mask"], version


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


ATTENTION = {
    "plain": {}, "causal": {"is_causal": True}, "scaled": {"scale": 0.3}, "grouped": {"enable_gqa": True},
    "masked": {"attn_mask": lambda q, k: torch.arange(k)[None, :] <= torch.arange(q)[:, None]}, "biased": {"attn_mask": lambda q, k: torch.arange(q * k).view(q, k) / 7.0},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_with_dropout(name, turned, dtype):
    options = ATTENTION[name]

    def function(q, k, v):
        given = {key: value(q.shape[-2], k.shape[-2]) if callable(value) else value for key, value in options.items()}
        if "attn_mask" in given and given["attn_mask"].is_floating_point():
            given["attn_mask"] = given["attn_mask"].to(q.dtype)
        if turned:
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.3, **given).transpose(1, 2).flatten(2) + 1

    def heads(batch, count, length):
        return torch.randn((batch, length, count, 8) if turned else (batch, count, length, 8)).to(dtype)

    compiled = escapement.jit(function)
    for batch, length in [(2, 7), (3, 13), (1, 5), (2, 1), (1, 1), (2, 7)]:
        if turned and options.get("attn_mask") is not None:
            continue   # made for the order of heads
        given = heads(batch, 4, length), heads(batch, 2 if name == "grouped" else 4, length), heads(batch, 2 if name == "grouped" else 4, length)
        results = []
        for each in (compiled, function):
            torch.manual_seed(6)
            results.append((each(*given), torch.get_rng_state()))
        (got, state), (expected, eager) = results
        assert torch.equal(state, eager), (batch, length)
        torch.testing.assert_close(got, expected, rtol=2e-2 if dtype == torch.bfloat16 else 1e-4, atol=2e-2 if dtype == torch.bfloat16 else 1e-5)
        assert got.stride() == expected.stride()
    assert not compiled.info()["eager"]


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("name", ["encoder", "attention", "layers", "images", "recurrent"])
def test_modules_in_training(name, gradients):
    torch.manual_seed(0)
    nn = torch.nn
    attention = nn.MultiheadAttention(16, 4, dropout=0.3, batch_first=True)
    module, sizes = {
        "encoder": (nn.TransformerEncoderLayer(16, 4, 32, dropout=0.2, batch_first=True), lambda n: (2, n, 16)),
        "attention": (attention, lambda n: (2, n, 16)),
        "layers": (nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.4), nn.GELU(), nn.Linear(32, 16), nn.Dropout(0.1)), lambda n: (n, 16)),
        "images": (nn.Sequential(nn.Conv2d(3, 8, 3), nn.Dropout2d(0.4), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.Dropout(0.2)), lambda n: (2, 3, n + 5, n + 4)),
        "recurrent": (nn.LSTM(16, 16, 2, dropout=0.3, batch_first=True), lambda n: (2, n, 16)),
    }[name]

    def function(x):
        result = module(x, x, x) if name == "attention" else module(x)
        return result[0] if isinstance(result, tuple) else result

    with torch.set_grad_enabled(gradients):
        compiled = torch.compile(function, backend="escapement") if gradients else escapement.jit(function)
        for n in (7, 13, 2, 1, 7):
            x, results = torch.randn(sizes(n), requires_grad=gradients), []
            for each in (compiled, function):
                torch.manual_seed(9)
                result = each(x)
                results.append([result.detach(), *(torch.autograd.grad(result.square().sum(), x) if gradients else ()), torch.rand(3)])
            for got, expected in zip(*results):
                torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
