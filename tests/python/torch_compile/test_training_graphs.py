"""What AOTAutograd refuses of a graph that Dynamo has finished, and a user would not expect to: such functions are compiled, with eager's gradients."""

import pytest
import torch

from escapement.ledger import LEDGER

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("error::RuntimeWarning")]

linear = torch.nn.Linear(4, 4)


def first_rows(x, mask):
    kept = mask.sum().item()
    return linear(x).narrow(0, 0, kept).sum() + linear(x)


def resized(x, mask):
    return torch.nn.functional.interpolate(linear(x)[None, None], size=(mask.sum().item(), 4))


def pooled(x, mask):
    kept = mask.sum().item()
    return torch.nn.functional.avg_pool1d(linear(x)[None], min(kept, 2) if kept else 1)


def chosen(x, mask):
    return linear(x)[mask.nonzero().squeeze(1)].reshape(-1, 2).sum(0) * linear(x).sum()


def diagonal_of_a_view(x, mask):
    bias = torch.ones(2, x.shape[0], x.shape[0])
    for part in range(2):
        bias[part].fill_diagonal_(0, wrap=False)
        bias[part].triu_(-part).fill_diagonal_(3.0)
    return bias @ linear(x)


def diagonal_of_one_dim_more(x, mask):
    return linear(x)[:1, :1] * torch.ones(3, 3, 3).fill_diagonal_(2) + torch.ones(7, 3).fill_diagonal_(2, wrap=True).sum()


PROGRAMS = (first_rows, resized, pooled, chosen, diagonal_of_a_view, diagonal_of_one_dim_more)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_gradients(program):
    compiled = torch.compile(program, backend="escapement")
    for kept, rows in ((2, 6), (3, 5), (1, 4), (4, 9), (2, 6)):
        x, mask = torch.randn(rows, 4, generator=torch.Generator().manual_seed(rows)), torch.zeros(rows, dtype=torch.long)
        mask[:kept] = 1
        found = []
        for function in (compiled, program):
            linear.zero_grad()
            result = function(x, mask)
            result.sum().backward()
            found.append([result.detach(), *(p.grad.clone() for p in linear.parameters())])
        for ours, eager in zip(*found):
            torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)
    counted = LEDGER.counters()
    assert not counted["fallbacks"] and not counted["refused_calls"], counted


@pytest.mark.filterwarnings("ignore::RuntimeWarning")   # a graph that runs eagerly says so
@pytest.mark.parametrize("program", [program for program in PROGRAMS if program is not pooled], ids=lambda program: program.__name__)   # a branch on a value
def test_no_break_where_none_is_wanted(program):
    compiled = torch.compile(program, backend="escapement", fullgraph=True)
    for kept, rows in ((2, 6), (3, 5)):
        x, mask = torch.ones(rows, 4), torch.zeros(rows, dtype=torch.long)
        mask[:2 * (kept // 2)] = 1
        torch.testing.assert_close(compiled(x, mask), program(x, mask))
    assert not LEDGER.counters()["graph_breaks"]


def layers(dropout):
    make, settings = torch.nn, {"dropout": dropout, "batch_first": True}
    return {
        "attention": (make.MultiheadAttention(8, 2, **settings), lambda n, m: (torch.randn(n, m, 8),) * 3),
        "attention, length first": (make.MultiheadAttention(8, 2, dropout=dropout), lambda n, m: (torch.randn(m, n, 8), torch.randn(m + 1, n, 8), torch.randn(m + 1, n, 8))),
        "encoder": (make.TransformerEncoderLayer(8, 2, 16, **settings), lambda n, m: (torch.randn(n, m, 8),)),
        "encoder with a mask": (make.TransformerEncoderLayer(8, 2, 16, **settings), lambda n, m: (torch.randn(n, m, 8), make.Transformer.generate_square_subsequent_mask(m))),
        "encoder, norms first": (make.TransformerEncoderLayer(8, 2, 16, norm_first=True, activation="gelu", **settings), lambda n, m: (torch.randn(n, m, 8),)),
        "decoder": (make.TransformerDecoderLayer(8, 2, 16, **settings), lambda n, m: (torch.randn(n, m, 8), torch.randn(n, m + 2, 8))),
        "transformer": (make.Transformer(8, 2, 1, 1, 16, **settings), lambda n, m: (torch.randn(n, m, 8), torch.randn(n, m + 1, 8))),
    }


def step(function, module, arguments):
    module.zero_grad()
    torch.manual_seed(5)
    result = function(*arguments)
    result = result[0] if isinstance(result, tuple) else result
    (result * torch.linspace(-1, 1, 8)).sum().backward()
    return [result.detach(), *(p.grad.clone() for p in module.parameters())]


@pytest.mark.parametrize("dropout", (0.0, 0.25))
@pytest.mark.parametrize("name", layers(0.0))
def test_layers_of_transformers_are_compiled(name, dropout):
    module, make = layers(dropout)[name]
    compiled = torch.compile(module, backend="escapement")
    for n, m in ((3, 5), (2, 7), (5, 4), (1, 6), (4, 2)):
        torch.manual_seed(n)
        arguments = make(n, m)
        for ours, eager in zip(step(compiled, module, arguments), step(module, module, arguments)):
            torch.testing.assert_close(ours, eager, rtol=1e-3, atol=1e-4)
    counted = LEDGER.counters()
    regions = [region.info() for function in LEDGER.functions() for region in function.regions()]
    assert counted["compiles"] <= 2 and not counted["fallbacks"] and not counted["graph_breaks"], counted
    assert regions and not any(region["fallbacks"] for region in regions), [region["fallbacks"] for region in regions]
