"""A write into a part of a tensor is one compile for all sizes, those of one and of nothing too, with gradients and without; and what is expanded is
refused as eager refuses it, at whichever size the first call came.
"""

import pytest
import torch

import escapement
from escapement.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh")

SIZES = [(3, 5, 4), (1, 5, 4), (3, 1, 4), (1, 1, 4), (2, 7, 4), (0, 5, 4), (13, 11, 4)]
REFUSED = "more than one element of the written-to tensor refers to a single memory location"

WRITES = {
    "a column, of sums": lambda y: y.__setitem__((..., 0), y.sum(-1)), "a row": lambda y: y.__setitem__((slice(None), 0), y.sum(1)),
    "a number": lambda y: y.__setitem__((..., 0), 1.0), "the first two": lambda y: y.__setitem__((..., slice(0, 2)), y[..., 2:]),
    "all but the first": lambda y: y.__setitem__((slice(None), slice(1, None)), y[:, :-1] * 2), "each second": lambda y: y[..., ::2].mul_(2),
    "in place": lambda y: y[..., :2].add_(y[..., 2:]), "nothing left": lambda y: y[..., 0].zero_(),
    "turned": lambda y: y.transpose(0, 1).copy_(y.transpose(0, 1) * 2),
}


def programs(write):
    def program(x):
        y = x * 2
        write(y)
        return y
    return program


def of(sizes, grad):
    return torch.randn(sizes, requires_grad=grad)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", WRITES)
def test_a_write_into_a_part_is_one_compile(name, grad):
    program = programs(WRITES[name])
    compiled = torch.compile(program, backend="escapement")
    for sizes in SIZES:
        x = of(sizes, grad)
        found = compiled(x)
        torch.testing.assert_close(found, program(x))
        if grad:
            (gradient,), (wanted,) = (torch.autograd.grad(result.square().sum(), x) for result in (found, program(x)))
            torch.testing.assert_close(gradient, wanted)
    counted = escapement.stats()["dynamo"]
    assert (counted["compiles"], counted["graph_breaks"], counted["refused_calls"]) == (1, 0, 0)
    for sizes in SIZES:   # nothing is recorded anew
        before = escapement.stats()
        compiled(of(sizes, grad))
        after = escapement.stats()
        assert after["hits"] == before["hits"] + 1 and after["recordings"] == before["recordings"], sizes


def of_an_expanded(x):
    return torch.zeros(1, 4).expand(x.shape[0], 4).copy_(x)


def of_a_part(x):
    return torch.zeros(1, 4).expand(x.shape[0], 4)[:, 1:].copy_(x[:, 1:])


EXPANDED = {"all": of_an_expanded, "a part": of_a_part}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("lengths", [(1, 3, 0, 2, 1), (3, 1, 2, 0), (0, 5, 1)], ids=str)
@pytest.mark.parametrize("name", EXPANDED)
def test_what_is_expanded_is_refused(name, lengths, grad):
    compiled = torch.compile(EXPANDED[name], backend="escapement")
    for length in lengths:
        x = of((length, 4), grad)
        if length > 1:
            for run in (EXPANDED[name], compiled):
                with pytest.raises(RuntimeError, match=REFUSED if not grad else None):   # with gradients eager has two things to say about a part
                    run(x)
        else:
            assert torch.equal(compiled(x), EXPANDED[name](x))


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("first", ["plain", "expanded"])
def test_an_argument_that_comes_expanded_is_refused(first, grad):
    def program(y, x):
        y[:, 1:].copy_(x[:, 1:])
        return y * x

    compiled = torch.compile(program, backend="escapement")
    for kind in (first, "plain", "expanded", "plain"):
        x = of((3, 4), grad)
        if kind == "plain":
            assert torch.equal(compiled(torch.zeros(3, 4), x), program(torch.zeros(3, 4), x))
        else:
            for run in (program, compiled):
                with pytest.raises(RuntimeError, match=REFUSED):
                    run(torch.zeros(1, 4).expand(3, 4), x)


# --- rows of a length that varies, written into a part: whether the first length is 1 is no question

def wave(x):
    table = torch.zeros(x.shape[0], 4)
    table[:, 0::2] = torch.sin(torch.arange(x.shape[0])[:, None] * 0.1)
    return x.sum() + table


def written(shape, key, rows=lambda x: x):
    def body(x):
        part = x.new_zeros([x.shape[0] if length is None else length for length in shape])
        part[key(x) if callable(key) else key] = rows(x)
        return part

    return body


ROWS = {
    "positions": wave,
    "whole": written((2, None, 3), slice(None)),
    "new axis": written((None, 3), None, lambda x: x * 2),
    "ellipsis": written((None, 3), ..., lambda x: x * 2),
    "one of a column": written((None, 3), (slice(None), slice(1, None)), lambda x: x[:, :1]),
    "sums": written((None, 3), (slice(None), slice(None)), lambda x: x.sum(1, keepdim=True)),
    "element": written((2, None, 3), 1),
    "step": written((None, 6), (slice(None), slice(None, None, 2))),
    "as many": written((9, 3), lambda x: slice(0, x.shape[0])),
    "another dtype": written((None, 3), slice(None), lambda x: x.double()),
    "more axes than the part": written((3,), slice(None), lambda x: x[:1]),
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("sizes", [(5, 7, 1, 2, 0), (1, 5, 3, 2)], ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_rows_of_any_length(name, sizes, training):
    torch._dynamo.reset()
    compiled = torch.compile(ROWS[name], backend="escapement")
    for size in sizes if name != "more axes than the part" else [size for size in sizes if size]:
        x = torch.randn(size, 3, requires_grad=training)
        ours = compiled(x)
        wanted = ROWS[name](x)
        torch.testing.assert_close(ours, wanted)
        if training:
            torch.testing.assert_close(torch.autograd.grad(ours.sum(), x), torch.autograd.grad(wanted.sum(), x))
    assert LEDGER.counters()["compiles"] == 1 and escapement.stats()["launches"] > 0
