"""Arguments that look at one memory, with gradients: torch names the base of a view a second time, and makes its fakes twice. Results and gradients are
eager's, one compile serves all sizes, and torch's log has no errors."""

import pytest
import torch

import escapement
from escapement.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh")

embedding, linear = torch.nn.Embedding(31, 8), torch.nn.Linear(8, 8)


def encoder_decoder(a, b):
    return linear(embedding(a)).sum(1, keepdim=True) + embedding(b)


def rows(a, b):
    return linear(a).sum(0, keepdim=True) + linear(b)


def ids(n, m):
    return torch.arange(n * m).reshape(n, m) % 31


def floats(n, m):
    return torch.linspace(-1, 1, n * 8).reshape(n, 8)


PAIRS = {
    "base and view": (encoder_decoder, ids, lambda x: (x, x[:, :3])), "view and base": (encoder_decoder, ids, lambda x: (x[:, :3], x)),
    "shifted": (encoder_decoder, ids, lambda x: (x[:, 1:], x[:, :-1])), "base and rows": (rows, floats, lambda x: (x, x[:2])),
    "rows and base": (rows, floats, lambda x: (x[:2], x)), "two parts": (rows, floats, lambda x: (x[:2], x[1:])), "twice": (rows, floats, lambda x: (x, x)),
    "view of a view": (rows, floats, lambda x: (x, x[1:][:2])), "flattened": (lambda a, b: rows(a, b.view(a.shape)), floats, lambda x: (x, x.view(-1))),
}


def gradients(function, arguments):
    for module in (embedding, linear):
        module.zero_grad()
    result = function(*arguments)
    (result * torch.linspace(0, 1, 8)).sum().backward()
    return result.detach(), [p.grad.clone() for module in (embedding, linear) for p in module.parameters() if p.grad is not None]


@pytest.mark.parametrize("dims", ((4, 7), (5, 9), (3, 4)), ids=str)
@pytest.mark.parametrize("pair", PAIRS)
def test_gradients_of_what_shares_memory(pair, dims, caplog):
    function, make, choose = PAIRS[pair]
    compiled = torch.compile(function, backend="escapement")
    for sizes in (dims, (6, 5), (4, 8)):
        for ours, eager in zip(gradients(compiled, choose(make(*sizes))), gradients(function, choose(make(*sizes)))):
            torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-5)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    counted = LEDGER.counters()
    assert counted["compiles"] == 1 and not counted["skipped_frames"], escapement.stats()["dynamo"]
