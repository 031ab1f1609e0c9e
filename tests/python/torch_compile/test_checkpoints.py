"""Checkpoints of blocks that draw random numbers: the second forward draws what the first drew, the generator ends where eager's does, and both graphs are
recorded once for all sizes. (They ran eagerly.)"""
import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import escapement


class Block(torch.nn.Module):
    def __init__(self, noise):
        super().__init__()
        self.linear, self.noise = torch.nn.Linear(8, 8), noise

    def forward(self, x):
        return self.noise(torch.relu(self.linear(x))) + x


NOISES = {
    "dropout": torch.nn.Dropout(0.3), "two dropouts": torch.nn.Sequential(torch.nn.Dropout(0.3), torch.nn.GELU(), torch.nn.Dropout(0.1)),
    "normal": lambda x: x + 0.1 * torch.randn_like(x), "uniform": lambda x: x * torch.rand(x.shape[0], 1), "bernoulli": lambda x: x * torch.bernoulli(torch.full_like(x, 0.5)),
    "gumbel": lambda x: F.gumbel_softmax(x), "permutation": lambda x: x[torch.randperm(x.shape[0])], "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.2)[0],
}


class Network(torch.nn.Module):
    def __init__(self, noise, **settings):
        super().__init__()
        self.blocks, self.settings = torch.nn.ModuleList(Block(noise) for _ in range(3)), settings

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, **self.settings)
        return x


class Sequence(Network):
    def forward(self, x):
        return checkpoint_sequential(torch.nn.Sequential(*self.blocks), 2, x, use_reentrant=False)


class Nested(Network):
    def forward(self, x):
        first = lambda x: checkpoint(self.blocks[0], self.blocks[1](x), use_reentrant=False)   # noqa: E731
        return self.blocks[2](checkpoint(first, x, use_reentrant=False))


def step(network, called, rows):
    torch.manual_seed(rows)
    network.zero_grad()
    x = ((torch.arange(rows * 8.0) * 37 % 19) / 9 - 1).reshape(rows, 8).requires_grad_()
    result = called(x)
    after = torch.get_rng_state()
    result.square().sum().backward()
    return [result.detach(), x.grad, after, torch.get_rng_state(), *(parameter.grad.clone() for parameter in network.parameters() if parameter.grad is not None)]


def compare(network, rows=(4, 7, 2, 9, 4)):
    torch.compiler.reset()
    compiled = torch.compile(network, backend="escapement")
    for count in rows:
        for ours, eagers in zip(step(network, compiled, count), step(network, network, count)):
            torch.testing.assert_close(ours, eagers, rtol=1e-5, atol=1e-5)
    return escapement.stats()


@pytest.mark.parametrize("name", NOISES)
def test_one_recording_for_all_sizes(name):
    torch.manual_seed(0)
    stats = compare(Network(NOISES[name], use_reentrant=False))
    assert stats["launches"] > 0 and stats["dynamo"]["specialised_dims"] <= 1, stats   # columns, by the weights
    assert stats["recordings"] == 2 and stats["hits"] == 8 and not stats.get("eager_calls") and not stats["dynamo"]["fallbacks"], stats


@pytest.mark.parametrize("kind, graphs", [(Sequence, 3), (Nested, 2)])   # Dynamo makes two frames of the first
def test_forms(kind, graphs):
    torch.manual_seed(0)
    stats = compare(kind(torch.nn.Dropout(0.3)))
    assert stats["recordings"] == graphs and not stats.get("eager_calls") and not stats["dynamo"]["fallbacks"], stats


def test_numbers_that_need_not_be_the_same():
    """Eager's two forwards differ, so that nothing can be compared but what is recorded."""
    torch.compiler.reset()
    network = Network(torch.nn.Dropout(0.3), use_reentrant=False, preserve_rng_state=False)
    compiled = torch.compile(network, backend="escapement")
    for rows in (4, 7):
        assert step(network, compiled, rows)[0].shape == (rows, 8)
    assert not escapement.stats()["dynamo"]["fallbacks"], escapement.stats()


@pytest.mark.parametrize("rows", [(1, 4, 1), (0, 4, 0), (4, 0, 1, 5)], ids=str)
def test_one_row_and_none(rows):
    torch.manual_seed(0)
    compare(Network(torch.nn.Dropout(0.3), use_reentrant=False), rows)


def test_draws_around_a_checkpoint():
    class Around(Network):
        def forward(self, x):
            x = F.dropout(x, 0.2)
            x = checkpoint(self.blocks[0], x, use_reentrant=False)
            return F.dropout(x, 0.2) + torch.randn_like(x)

    torch.manual_seed(0)
    stats = compare(Around(torch.nn.Dropout(0.3)))
    assert stats["recordings"] == 2 and not stats.get("eager_calls") and not stats["dynamo"]["fallbacks"], stats


def test_evaluation_draws_nothing():
    torch.manual_seed(0)
    network = Network(torch.nn.Dropout(0.3), use_reentrant=False).eval()
    stats = compare(network)
    assert not stats.get("eager_calls") and not stats["dynamo"]["fallbacks"], stats


@pytest.mark.parametrize("device, refused", [("cpu", []), ("meta", ["run_and_save_rng_state"])])
def test_draws_of_a_device_are_refused(device, refused):
    """What cannot be recorded is said before anything runs: the graph then runs eagerly, counted."""
    from torch._prims.rng_prims import run_and_save_rng_state

    from escapement.recording import dispatch

    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(3, device=device)
    graph.output(graph.call_function(run_and_save_rng_state, (torch.ops.aten.rand_like.default, x)))
    assert dispatch.prepare(torch.fx.GraphModule(torch.nn.Module(), graph), None) == refused


class Counting(Network):
    """Statistics that are written outside of a checkpoint."""

    def __init__(self):
        super().__init__(torch.nn.Identity())
        self.norm = torch.nn.BatchNorm1d(8)
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x):
        x = checkpoint(self.blocks[0], x, use_reentrant=False)
        self.mean.mul_(0.9).add_(x.detach().mean(0))
        return self.norm(x) * 2


class Normed(Counting):
    """And inside of one, where eager counts twice."""

    def forward(self, x):
        return checkpoint(lambda x: self.norm(self.blocks[0](x)), x, use_reentrant=False)


@pytest.mark.parametrize("kind", [Counting, Normed])
def test_arguments_that_are_written(kind):
    torch.manual_seed(0)
    torch.compiler.reset()
    ours, eager = kind(), kind()
    eager.load_state_dict(ours.state_dict())
    compiled = torch.compile(ours, backend="escapement")
    for rows in (4, 7, 2, 9, 4):
        for made, expected in zip(step(ours, compiled, rows), step(eager, eager, rows)):
            torch.testing.assert_close(made, expected, rtol=1e-5, atol=1e-5)
    if kind is Counting:
        torch.testing.assert_close(dict(ours.named_buffers()), dict(eager.named_buffers()))
    stats = escapement.stats()
    dynamo = stats["dynamo"]
    assert dynamo["compiles"] == 1 and not dynamo["skipped_frames"] and not dynamo["refused_calls"] and not dynamo["fallbacks"], stats
    assert stats["recordings"] == 2 and not stats.get("eager_calls"), stats


def test_a_written_argument_that_shares_memory_later():
    linear = torch.nn.Linear(8, 8)

    def scaled(x, total):
        result = checkpoint(linear, x, use_reentrant=False)
        total.mul_(0.5).add_(result.detach().sum(0))
        return result * 2

    def run(function, rows, shared):
        x = (torch.arange(rows * 8.0) / 7 - 1).reshape(rows, 8)
        total = x[0] if shared else torch.ones(8)
        result = function(x, total)
        linear.zero_grad()
        result.sum().backward()
        return result.detach(), total, x, linear.bias.grad.clone()

    torch.compiler.reset()
    compiled = torch.compile(scaled, backend="escapement")
    for rows, shared in ((4, False), (7, False), (3, False)):
        torch.testing.assert_close(run(compiled, rows, shared), run(scaled, rows, shared))
    assert escapement.stats()["dynamo"]["compiles"] == 1
    linear.requires_grad_(False)   # eager refuses a gradient of what has been written meanwhile
    with torch.no_grad():
        x, y = torch.ones(4, 8), torch.ones(4, 8)
        torch.testing.assert_close((compiled(x, x[0]), x), (scaled(y, y[0]), y))


class Masked(torch.nn.Module):
    """Heads times rows reach the backward as a number of their own, which views there must know to be heads times rows."""

    def __init__(self):
        super().__init__()
        make = torch.nn.TransformerEncoderLayer
        self.layers = torch.nn.ModuleList([make(12, 3, 24, dropout=0.0, batch_first=True), make(12, 3, 24, dropout=0.0, batch_first=True, norm_first=True)])

    def forward(self, x):
        x = torch.cat([x, x[:, :4]], 1)[:, None, :] * torch.linspace(0.5, 1, 3 + x.shape[0] % 2)[:, None]
        mask = torch.arange(x.shape[1]).expand(x.shape[0], -1) == 0
        for layer in self.layers:
            x = checkpoint(layer, x, None, mask, use_reentrant=False)
        return x.masked_fill(mask[..., None], 0).sum(1) / (~mask).sum(1, keepdim=True)


def test_layers_of_attention_with_a_mask():
    torch.manual_seed(0)
    stats = compare(Masked())
    assert stats["recordings"] == 2 and not stats.get("eager_calls") and not stats["dynamo"]["fallbacks"], stats
