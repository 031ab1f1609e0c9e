"""Recurrent networks under torch.compile: the operator stands whole in one graph for all lengths and batches. Dynamo by itself refuses the modules, and
the frame around them with it. In training they are a graph break each, and run eagerly between the graphs.
"""

import pytest
import torch
import torch.nn as nn

import escapement

SIZES = [(2, 5), (3, 7), (1, 9), (4, 1), (1, 1), (5, 11), (8, 13), (0, 3)]   # batch, length
KINDS = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN, "relu": lambda *args, **kwargs: nn.RNN(*args, nonlinearity="relu", **kwargs),
         "projected": lambda *args, **kwargs: nn.LSTM(*args, proj_size=3, **kwargs)}
FORMS = {"plain": {}, "batch first": {"batch_first": True}, "bidirectional": {"bidirectional": True}, "deep": {"num_layers": 3, "dropout": 0.5},
         "all": {"batch_first": True, "bidirectional": True, "num_layers": 2}, "no bias": {"bias": False}}


def dynamo():
    return escapement.stats()["dynamo"]


def flat(result):
    return [tensor for part in result for tensor in (flat(part) if isinstance(part, (tuple, list)) else [part])]


def same(ours, eager):
    for a, b in zip(flat(ours), flat(eager), strict=True):
        torch.testing.assert_close(a, b)
        assert a.stride() == b.stride() and a.requires_grad == b.requires_grad, (a.shape, a.stride(), b.stride())


def compiled(function):
    torch._dynamo.reset()
    escapement.reset()
    return torch.compile(function, backend="escapement")


def is_one_graph(own=0):
    """`own`: dims that the program compares with numbers of its own."""
    found = dynamo()
    assert found["compiles"] == 1 and not found["graph_breaks"] and found["specialised_dims"] == own and not found["skipped_frames"], found
    assert not found["fallbacks"], found


class Tagger(nn.Module):
    def __init__(self, kind, **form):
        super().__init__()
        self.embedding, self.network = nn.Embedding(50, 8), kind(8, 5, **form)
        width = (3 if getattr(self.network, "proj_size", 0) else 5) * (2 if form.get("bidirectional") else 1)
        self.head = nn.Linear(width, 4)

    def forward(self, words):
        found, states = self.network(self.embedding(words))
        return self.head(torch.relu(found)).log_softmax(-1), found, states


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_one_graph_serves_all_lengths_and_batches(kind, form):
    model = Tagger(KINDS[kind], **FORMS[form]).eval()
    function = compiled(model)
    first = FORMS[form].get("batch_first")
    for batch, length in SIZES if first else SIZES[:-1]:
        words = torch.randint(0, 50, (batch, length) if first else (length, batch))
        same(function(words), model(words))
    is_one_graph()
    assert escapement.stats()["hits"] >= len(SIZES) - 3, escapement.stats()


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@torch.no_grad()
def test_states_that_go_from_call_to_call(kind):
    network = KINDS[kind](4, 5, num_layers=2)
    function = compiled(lambda x, states: network(x, states))
    for batch in (2, 1, 3):
        def states():
            return (torch.zeros(2, batch, 5), torch.zeros(2, batch, 5)) if kind == "LSTM" else torch.zeros(2, batch, 5)

        ours, eager = states(), states()
        for length in (3, 1, 7, 2):
            x = torch.randn(length, batch, 4)
            (y, ours), (expected, eager) = function(x, ours), network(x, eager)
            same([y, ours], [expected, eager])
    is_one_graph(own=5 if kind == "LSTM" else 3)   # features, layers


CELLS = {"LSTM": nn.LSTMCell, "GRU": nn.GRUCell, "RNN": nn.RNNCell, "relu": lambda *args: nn.RNNCell(*args, nonlinearity="relu"), "no bias": lambda *args: nn.LSTMCell(*args, bias=False)}


@pytest.mark.parametrize("kind", CELLS)
@torch.no_grad()
def test_cells(kind):
    network = CELLS[kind](4, 5)

    def program(x, h):
        return network(x, (h, h * 2)) if isinstance(network, nn.LSTMCell) else [network(x, h)]

    function = compiled(program)
    for batch in (2, 1, 3, 7, 0, 11):
        x, h = torch.randn(batch, 4), torch.randn(batch, 5)
        same(function(x, h), program(x, h))
    is_one_graph(own=2)   # features, hidden
    for x, h in ((torch.randn(2, 3), torch.randn(2, 5)), (torch.randn(2, 4), torch.randn(3, 5)), (torch.randn(2, 4), torch.randn(2, 6))):
        for call in (program, function):
            with pytest.raises(RuntimeError):
                call(x, h)


@torch.no_grad()
def test_one_sequence_without_a_batch():
    network = nn.GRU(4, 5, bidirectional=True)
    function = compiled(lambda x: network(x * 2))
    for length in (3, 1, 7, 11):
        x = torch.randn(length, 4)
        same(function(x), network(x * 2))
    is_one_graph(own=1)


@torch.no_grad()
def test_dropout_between_layers_draws_as_eager():
    network = nn.LSTM(4, 5, num_layers=2, dropout=0.5).train()
    function = compiled(lambda x: network(x))
    for length in (3, 1, 7):
        x = torch.randn(length, 2, 4)
        torch.manual_seed(length)
        ours, after = function(x), torch.rand(1)
        torch.manual_seed(length)
        same([ours, after], [network(x), torch.rand(1)])


@pytest.mark.parametrize("batch_first", [True, False])
@torch.no_grad()
def test_packed_sequences_are_as_eager(batch_first):
    network, head = nn.LSTM(4, 5, batch_first=batch_first), nn.Linear(5, 2)

    def program(x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=batch_first, enforce_sorted=False)
        found, states = network(packed)
        padded, counts = nn.utils.rnn.pad_packed_sequence(found, batch_first=batch_first)
        return head(padded), counts, states

    function = compiled(program)
    for lengths in ([3, 2], [5, 1, 4], [1], [7, 7, 7, 2]):
        sizes = len(lengths), max(lengths)
        x = torch.randn(*(sizes if batch_first else sizes[::-1]), 4)
        same(function(x, torch.tensor(lengths)), program(x, torch.tensor(lengths)))


@torch.no_grad()
def test_what_eager_refuses():
    network = nn.LSTM(4, 5)
    function = compiled(lambda x, h, c: network(x, (h, c)))
    state = torch.zeros(1, 2, 5)
    for x, h in ((torch.randn(3, 2, 6), state), (torch.randn(3, 7, 4), state), (torch.randn(3, 2, 4), torch.zeros(2, 2, 5)), (torch.randn(3, 2, 4, 1), state)):
        with pytest.raises((RuntimeError, ValueError)) as expected:
            network(x, (h, h))
        with pytest.raises(Exception, match=r"(?s).*") as found:
            function(x, h, h)
        assert isinstance(found.value, expected.type) or expected.type.__name__ in str(found.value), (found.value, expected.value)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("form", ["plain", "batch first", "all"])
def test_training_breaks_the_graph_once(kind, form):
    model = Tagger(KINDS[kind], **FORMS[form])
    function = compiled(model)
    for batch, length in ((2, 5), (3, 7), (1, 1), (5, 2), (7, 11)):
        words = torch.randint(0, 50, (batch, length) if FORMS[form].get("batch_first") else (length, batch))
        results = []
        for call in (function, model):
            model.zero_grad()
            found, output, states = call(words)
            (found.square().sum() + sum(state.sum() for state in flat([states]))).backward()
            results.append([found.detach(), output.detach(), *(parameter.grad.clone() for parameter in model.parameters())])
        for ours, eager in zip(*results):
            torch.testing.assert_close(ours, eager)
    found = dynamo()
    assert found["graph_breaks"] == 1 and 2 <= found["compiles"] <= 5 and not found["fallbacks"], found


def test_evaluation_without_no_grad():
    model = Tagger(nn.LSTM, batch_first=True).eval()
    function = compiled(model)
    for batch, length in ((2, 5), (3, 7), (4, 2), (7, 11)):
        words = torch.randint(0, 50, (batch, length))
        same(function(words), model(words))
    assert dynamo()["graph_breaks"] == 1 and dynamo()["compiles"] == 2, dynamo()


def test_a_frozen_network_whose_input_wants_gradients():
    network = nn.GRU(4, 5).requires_grad_(False)
    function = compiled(lambda x: network(x)[0].sum())
    for length in (3, 5):
        x = torch.randn(length, 2, 4)
        gradients = []
        for call in (function, lambda x: network(x)[0].sum()):
            given = x.clone().requires_grad_()
            call(given).backward()
            gradients.append(given.grad)
        torch.testing.assert_close(*gradients)


@torch.no_grad()
def test_trained_between_calls():
    """Weights change in place between evaluations; a graph reads them anew."""
    model = Tagger(nn.LSTM, batch_first=True)
    function = compiled(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for batch, length in ((2, 5), (3, 7), (1, 2)):
        words = torch.randint(0, 50, (batch, length))
        same(function(words), model(words))
        with torch.enable_grad():
            model(words)[0].sum().backward()
        optimizer.step()
        same(function(words), model(words))
    is_one_graph()
