"""Views of what a replayed function's products and other layers compute, with and without a bias: eager's result may be a view already, of a tensor
that the program never sees. Such a segment is recorded once, as one whose layer has no bias is."""

import itertools

import pytest
import torch

import escapement
from harness import assert_same_form, seeded

F = torch.nn.functional
WIDTH = 8
SIZES = [(2, 3, 5), (1, 4, 2), (3, 1, 5), (1, 1, 1), (5, 2, 3), (4, 3, 1), (2, 3, 5), (3, 5, 4), (1, 1, 3), (2, 3, 5)]   # leading axes

VIEWS = {
    "none": lambda y: y,
    "view": lambda y: y.view(*y.shape[:-1], 2, -1),
    "view as a matrix": lambda y: y.view(-1, y.shape[-1]),
    "reshape": lambda y: y.reshape(y.shape[0], -1),
    "transpose": lambda y: y.transpose(0, -1),
    "permute": lambda y: y.permute(*reversed(range(y.dim()))),
    "chunk": lambda y: y.chunk(2, -1),
    "chunk and view": lambda y: [part.view(*y.shape[:-1], 2, part.shape[-1] // 2).transpose(-2, 0) for part in y.chunk(2, -1)],
    "split": lambda y: y.split(3, -1),
    "unbind": lambda y: y.unbind(-1)[1:3],
    "unsqueeze": lambda y: y.unsqueeze(1),
    "slice": lambda y: y[..., 1:6:2],
    "select": lambda y: y[0],
    "a view of a view": lambda y: y.transpose(0, -1)[1:].unsqueeze(0),
    "a view and the whole": lambda y: (y, y.transpose(0, -1)),
    "flatten": lambda y: y.flatten(),
    "expand": lambda y: y.unsqueeze(0).expand(3, *y.shape),
    "a view that is written": lambda y: (y[..., :4].mul_(2), y.unsqueeze(0)),
    "a view of what was computed on": lambda y: (y * 2).transpose(0, -1),
}


def layers(bias):
    generator = seeded(3)
    weight, square = torch.randn(WIDTH, WIDTH, generator=generator), torch.randn(5, WIDTH, WIDTH, generator=generator)
    b = torch.randn(WIDTH, generator=generator) if bias else None
    kernel = torch.randn(WIDTH, WIDTH, 1, generator=generator)
    table = torch.randn(11, WIDTH, generator=generator)

    def embedding(x):
        y = F.embedding((x[..., 0].abs() * 3).long() % 11, table)
        return y if b is None else y + b

    def product(x):
        return x @ weight if b is None else torch.matmul(x, weight).add_(b)

    def addmm(x):
        return x.mm(weight) if b is None else torch.addmm(b, x, weight)

    def bmm(x):
        many = square[:1].expand(x.shape[0], -1, -1)
        return x.bmm(many) if b is None else torch.baddbmm(b, x, many)

    return {
        "linear": (lambda x: F.linear(x, weight, b), (2, 3, 4)),
        "matmul": (product, (2, 3, 4)),
        "addmm": (addmm, (2,)),
        "bmm": (bmm, (3,)),
        "layer_norm": (lambda x: F.layer_norm(x, (WIDTH,), weight[0] if bias else None, b), (2, 3, 4)),
        "embedding": (embedding, (2, 3, 4)),
        "conv1d": (lambda x: F.conv1d(x.transpose(1, 2), kernel, b).transpose(1, 2), (3,)),
    }


CASES = [(layer, bias, rank, view) for bias in (False, True) for layer, (_, ranks) in layers(bias).items() for rank in ranks for view in VIEWS]


def program(layer, bias, view):
    compute = layers(bias)[layer][0]
    return lambda x: VIEWS[view](compute(x * 2))


def input_of(rank, sizes):
    return torch.randn(*sizes[: rank - 1], WIDTH, generator=seeded(sizes))


def outcome(fn, x):
    try:
        result = fn(x)
    except (RuntimeError, IndexError) as error:
        return str(error)
    return list(result) if isinstance(result, (list, tuple)) else [result]


def shares(tensors):
    return [a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() for a, b in itertools.combinations(tensors, 2)]


def assert_same(ours, theirs, x, y):
    assert type(ours) is type(theirs), (ours, theirs)
    if isinstance(theirs, str):
        assert ours == theirs
        return
    for mine, other in zip(ours, theirs, strict=True):
        assert_same_form(mine, other)
        assert mine.stride() == other.stride() and mine.storage_offset() == other.storage_offset()
        assert torch.allclose(mine, other, rtol=1e-4, atol=1e-5)
    assert shares([*ours, x]) == shares([*theirs, y])


def serve(ours, theirs, rank, sizes):
    for some in sizes:
        x, y = input_of(rank, some), input_of(rank, some)
        assert_same(outcome(ours, x), outcome(theirs, y), x, y)


# An axis of 1 may be another branch: a broadcast, a copy instead of a view.
MOST = 12


@pytest.mark.parametrize("layer, bias, rank, view", CASES)
def test_equal_to_eager_in_every_call(layer, bias, rank, view):
    ours, theirs = escapement.jit(program(layer, bias, view), mode="replay"), program(layer, bias, view)
    with torch.no_grad():
        serve(ours, theirs, rank, SIZES)
        before = ours.info()["recordings"]
        serve(ours, theirs, rank, SIZES)
    info = ours.info()
    assert info["recordings"] == before <= MOST and "too_many_recordings" not in info["fallbacks"], ours.text()


@pytest.mark.parametrize("layer, bias, rank, view", [case for case in CASES if case[0] in ("linear", "addmm", "matmul", "bmm")])
def test_one_size_is_recorded_once(layer, bias, rank, view):
    ours, theirs = escapement.jit(program(layer, bias, view), mode="replay"), program(layer, bias, view)
    with torch.no_grad():
        serve(ours, theirs, rank, [(2, 3, 5)] * 6)
    segments = 3 if view == "chunk and view" else 1   # a view of a part ends one: its strides are known when it has run
    assert ours.info()["recordings"] == segments, ours.text()


def test_a_decoders_block():
    generator = seeded(5)
    qkv, out = torch.randn(24, 8, generator=generator), torch.randn(8, 8, generator=generator)
    b, c = torch.randn(24, generator=generator), torch.randn(8, generator=generator)

    def block(x):
        q, k, v = (part.view(*x.shape[:2], 2, 4).transpose(1, 2) for part in F.linear(F.layer_norm(x, (8,)), qkv, b).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + F.linear(y.transpose(1, 2).reshape(*x.shape), out, c)

    ours = escapement.jit(block, mode="replay")
    with torch.no_grad():
        for batch, length in [(2, 5), (1, 7), (3, 4), (2, 9), (2, 5), (1, 1), (4, 6), (1, 3), (1, 8), (2, 1)] * 2:
            x = torch.randn(batch, length, 8, generator=seeded((batch, length)))
            assert torch.allclose(ours(x), block(x), rtol=1e-4, atol=1e-5)
    assert ours.info()["recordings"] <= 8 and "too_many_recordings" not in ours.info()["fallbacks"], ours.text()


def test_what_several_recordings_of_one_place_differ_in_is_told():
    kept = []

    def body(x, keep):
        y = x * 2
        z = y.t()
        if keep:
            kept.append(y)
        return z.exp() + 1

    ours = escapement.jit(body, mode="replay")
    for keep in (False, False, True, True):
        ours(torch.ones(2, 3), keep)
    assert "recorded for v3" in ours.text() and "recorded for v0, v3" in ours.text(), ours.text()
