"""Recurrent networks inside of models, in call mode: one recording for all sizes, whatever reads their results; in training their dropout draws as eager's."""

import itertools

import pytest
import torch
from torch import nn

import escapement
from answered import Counted

SIZES = [(2, 7), (1, 3), (5, 7), (3, 1), (1, 1)]
KINDS = {"lstm": nn.LSTM, "gru": nn.GRU, "tanh": nn.RNN, "relu": lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k)}


class Tagger(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        torch.manual_seed(1)
        self.words, self.network = nn.Embedding(50, 12), KINDS[kind](12, 16, **options)
        width = (options.get("proj_size") or 16) * (2 if options.get("bidirectional") else 1)
        self.tags = nn.Linear(width, 5)

    def forward(self, x):
        y, state = self.network(self.words(x))
        last = state[0] if isinstance(state, tuple) else state
        return self.tags(y).log_softmax(-1), y[:, -1] * 2, torch.cat(last.unbind(0), -1).relu()


def words(*size):
    return torch.randint(0, 50, size, generator=torch.Generator().manual_seed(sum(size)))


def same(ours, eager):
    for one, two in zip(ours, eager):
        assert one.shape == two.shape and torch.allclose(one, two, rtol=1e-5, atol=1e-6)
        assert 1 in two.shape or one.stride() == two.stride()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch_first, bidirectional, layers", [*itertools.product([True, False], [True, False], [1, 2])])
def test_a_tagger(kind, batch_first, bidirectional, layers):
    model = Tagger(kind, batch_first=batch_first, bidirectional=bidirectional, num_layers=layers).eval()
    compiled = Counted(model, mode="call")
    with torch.no_grad():
        for size in compiled.twice(SIZES):
            same(compiled(words(*size)), model(words(*size)))
    compiled.expect()
    assert compiled.made.info()["recordings"] == 1


def test_a_projection():
    model = Tagger("lstm", proj_size=6, bidirectional=True, batch_first=True).eval()
    compiled = Counted(model, mode="call")
    with torch.no_grad():
        for size in compiled.twice(SIZES):
            same(compiled(words(*size)), model(words(*size)))
    compiled.expect()


def test_without_a_batch():
    model = nn.GRU(12, 16).eval()
    made = escapement.jit(model)
    with torch.no_grad():
        for length in (7, 3, 1, 7):
            x = torch.randn(length, 12)
            same(made(x), model(x))


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_draws_as_eagers(kind):
    model = Tagger(kind, num_layers=2, dropout=0.5).train()
    made = escapement.jit(model)
    with torch.no_grad():
        for size in SIZES + SIZES:
            torch.manual_seed(5)
            eager, left = model(words(*size)), torch.rand(3)
            torch.manual_seed(5)
            ours = made(words(*size))
            same(ours, eager)
            assert torch.equal(torch.rand(3), left)


def test_a_mode_that_changes():
    model = Tagger("lstm", num_layers=2, dropout=0.5, batch_first=True)
    made = escapement.jit(model)
    with torch.no_grad():
        for training in (False, True, False, True, True):
            model.train(training)
            torch.manual_seed(9)
            eager = model(words(3, 6))
            torch.manual_seed(9)
            same(made(words(3, 6)), eager)
