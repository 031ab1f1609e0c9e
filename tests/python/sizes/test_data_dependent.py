"""Sizes that a tensor's values decide: nonzero, masks, item, tolist, unique, repeat_interleave, split by lengths, segment reductions. Each
program is one graph without a break, is recorded once, and serves all shapes with eager's results; what follows the birth of a size is
fused like anything else. Counters prove all of it: none of these can pass by compiling or recording again."""

import pytest
import torch
from harness import region, seeded
from torch._dynamo.utils import counters

import escapement


def randn(n, *shape):
    return torch.randn(*shape, generator=seeded(n, shape))


def randint(n, high, *shape):
    return torch.randint(0, high, shape, generator=seeded(n, high, shape))


def positions(x):
    found = (x > 0).nonzero()
    return found.float().sum(0), found * 2 + 1


def positions_of_one_axis(x):
    (found,) = torch.where(x.flatten() > 0)
    return x.flatten()[found] * 2 + found


def masked(x):
    kept = x[x > 0]
    return (kept * 2 + 1).relu(), kept.sum()


def masked_rows(x):
    kept = x[x.sum(1) > 0]
    return torch.cat([kept * 2, kept + 1], 0).softmax(-1)


def selected(x):
    return torch.masked_select(x, x > 0).exp() + 1


def first_rows(x, n):
    return x[: n.item()] * 2 + 1


def narrowed(x, n):
    k = n.item()
    torch._check(k >= 0)
    torch._check(k <= x.shape[0])
    return (x.narrow(0, 0, k) * 2).sum(0)


def as_long_as(n):
    k = n.item()
    return torch.arange(k) * 2 + 1, torch.zeros(k, 3) + torch.arange(3)


def pieces(x, lengths):
    return torch.stack([(piece * 2).sum(0) for piece in torch.split(x, lengths.tolist())])


def normalised_pieces(x, lengths):
    return torch.cat([piece / (1 + piece.abs().sum()) for piece in torch.split(x, lengths.tolist())])


def distinct(x):
    return torch.unique(x) * 2 + 1


def distinct_and_back(x):
    values, inverse = torch.unique(x, return_inverse=True)
    return (values * 2)[inverse], inverse + 1


def repeated(x, times):
    rows = torch.repeat_interleave(x, times, dim=0)
    return (rows * 2 + 1).sum(0), rows.relu()


def segments(x, lengths):
    return torch.segment_reduce(x, "sum", lengths=lengths, unsafe=True) * 2


def jagged_mean(x, lengths):
    rows = torch.repeat_interleave(torch.arange(lengths.shape[0]), lengths)
    sums = torch.zeros(lengths.shape[0], x.shape[1]).index_add(0, rows, x * 2)
    return sums / lengths.clamp(min=1)[:, None]


def counts(x):
    return torch.bincount(x) * 2 + 1


def jagged(n):
    lengths = randint(n, 5, n)
    return randn(n, int(lengths.sum()), 3), lengths


def four_pieces(n):
    lengths = randint(n, n + 1, 4)
    return randn(n, int(lengths.sum()), 3), lengths


PROGRAMS = {
    positions: lambda n: (randn(n, n, 4),), positions_of_one_axis: lambda n: (randn(n, n, 2),), masked: lambda n: (randn(n, n, 3),),
    masked_rows: lambda n: (randn(n, n, 4),), selected: lambda n: (randn(n, n, 2),), first_rows: lambda n: (randn(n, n + 3, 2), torch.tensor(n)),
    narrowed: lambda n: (randn(n, n + 3, 2), torch.tensor(n)), as_long_as: lambda n: (torch.tensor(n),), pieces: four_pieces,
    normalised_pieces: four_pieces, distinct: lambda n: (randint(n, 5, n),), distinct_and_back: lambda n: (randint(n, 5, n),),
    repeated: lambda n: (randn(n, n, 3), randint(n, 4, n)), segments: jagged, jagged_mean: jagged, counts: lambda n: (randint(n, 5, n),),
}
SIZES = (5, 7, 2, 11, 1, 0, 33)


def assert_same(ours, eager):
    if isinstance(eager, torch.Tensor):
        ours, eager = (ours,), (eager,)
    for a, b in zip(ours, eager, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph_one_recording(program):
    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(program, backend="escapement")
    escapement.reset()
    for n in SIZES:
        arguments = PROGRAMS[program](n)
        assert_same(compiled(*arguments), program(*arguments))
    seen = escapement.stats()
    assert not counters["graph_break"] and counters["stats"]["unique_graphs"] == 1
    assert seen["recordings"] == 1 and seen["hits"] == len(SIZES) - 1 and not seen.get("eager_calls"), seen
    assert not seen.get("specialisations")
    # The strides of segment_reduce's result are ATen's to choose, so what follows it is ATen's too.
    assert program is segments or seen["launches"] >= seen["hits"], seen


def test_a_failing_assertion_is_eagers():
    torch._dynamo.reset()
    compiled = torch.compile(narrowed, backend="escapement")
    compiled(randn(0, 5, 2), torch.tensor(3))
    for wrong in (6, -1):
        with pytest.raises(RuntimeError):
            narrowed(randn(0, 5, 2), torch.tensor(wrong))
        with pytest.raises(RuntimeError):
            compiled(randn(0, 5, 2), torch.tensor(wrong))
    assert_same(compiled(randn(1, 8, 2), torch.tensor(8)), narrowed(randn(1, 8, 2), torch.tensor(8)))


def kernels_of(program, *arguments):
    made = region(lambda *xs: list(program(*xs)), len(arguments))
    made(*arguments)
    version = made.info()["versions"][0]
    return [kernel["ops"] for kernel in version["kernels"]], [call["target"] for call in version["calls"]]


def test_what_follows_nonzero_is_fused():
    def program(x):
        rows = x[(x.sum(1) > 0).nonzero().squeeze(1)]
        return ((rows * 2 + 1).relu().sum(1),)

    kernels, calls = kernels_of(program, randn(1, 9, 4))
    assert calls == ["aten::nonzero"]
    assert any({"mul", "add", "relu", "sum"} <= set(ops) for ops in kernels), kernels


def test_what_follows_a_mask_is_fused():
    kernels, calls = kernels_of(lambda x: ((x[x > 0] * 2 + 1).exp().sum(),), randn(1, 9, 4))
    assert any({"mul", "add", "exp", "sum"} <= set(ops) for ops in kernels), (kernels, calls)


@pytest.mark.parametrize("pieces_of_batch", [1, 8, 70, 500])
def test_a_jagged_batch_of_many_pieces(pieces_of_batch):
    """sum(lengths) == values.size(0), with more lengths than a sum of the algebra has terms."""
    def program(values, lengths):
        sizes = [lengths[i].item() for i in range(pieces_of_batch)]
        return [torch.stack([(piece * 2).sum(0) for piece in torch.split(values, sizes)])]

    made = region(program, 2)
    for n in (1, 2, 3):
        lengths = randint(n, 4, pieces_of_batch)
        values = randn(n, int(lengths.sum()), 3)
        assert_same(made(values, lengths), program(values, lengths))
    info = made.info()
    assert info["recordings"] == 1 and info["versions"][0]["hits"] == 2, info["misses"]
    assert len(info["versions"][0]["guards"]) <= pieces_of_batch + 3
    wrong = randn(1, int(lengths.sum()) + 1, 3)
    with pytest.raises(RuntimeError, match="split_with_sizes"):
        made(wrong, lengths)
