"""Composites that ATen takes apart with sizes as numbers (steering/composites.py, diagonals.py): one compile for all sizes, values, layouts, gradients
and errors are eager's."""

import pytest
import torch
import torch.nn.functional as F

import escapement
from escapement.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh")

SIZES = ((5, 6), (7, 9), (4, 12), (11, 8), (6, 6), (4, 5))


def indices(x, rows):
    return torch.arange(rows * x.shape[1]).reshape(rows, x.shape[1]) % x.shape[0]


PROGRAMS = {
    "max_pool1d": lambda x: F.max_pool1d(x[None] * 2, 2) + 1, "max_pool1d, all numbers": lambda x: F.max_pool1d(x, 3, 2, 1, 1, True),
    "max_pool1d, lists": lambda x: F.max_pool1d(x[None], [3], [1], padding=[1], dilation=[2]), "max_pool1d of a module": torch.nn.MaxPool1d(2, stride=1),
    "max_pool1d with places": lambda x: torch.cat([p.double() for p in F.max_pool1d(x, 2, return_indices=True)]),
    "take_along_dim": lambda x: x.take_along_dim(indices(x, 3), 0) * 2, "take_along_dim of all": lambda x: torch.take_along_dim(x, torch.tensor([0, 3])),
    "take_along_dim, broadcast": lambda x: torch.take_along_dim(x, torch.zeros(1, x.shape[1], dtype=torch.long), 0) + torch.take_along_dim(x[:1], torch.arange(4)[:, None], -1).sum(),
    "take_along_dim of the order": lambda x: x.take_along_dim(x.argsort(1), 1), "kron": lambda x: torch.kron(x, x[:2, :3]) + 1,
    "take_along_dim from the end": lambda x: x.take_along_dim(indices(x, 2), -2),
    "kron of other ranks": lambda x: torch.kron(x[None], x[0]), "kron of a number": lambda x: torch.kron(x, x.sum()),
    "fill_diagonal_": lambda x: (x * 1).fill_diagonal_(2.0), "fill_diagonal_ of t": lambda x: (x * 1).t().fill_diagonal_(0),
    "fill_diagonal_ of a part": lambda x: [y := x * 1, y[1:, 1:].fill_diagonal_(3)][0], "fill_diagonal_ around": lambda x: (x * 1).fill_diagonal_(2.0, wrap=False),
    "fill_diagonal_ by name": lambda x: (x * 1).fill_diagonal_(fill_value=4),
    "pad around": lambda x: F.pad(x[None], (1, 2), mode="circular") * 2, "pad around on one side": lambda x: F.pad(x[None], (0, 3), mode="circular") + 1,
    "pad around in two dims": lambda x: F.pad(x[None, None], (1, 2, 3, 0), mode="circular") * 2, "pad around in a convolution": torch.nn.Sequential(
        torch.nn.Unflatten(0, (1, 1, -1)), torch.nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"), torch.nn.Flatten(0, 2)),
    "pad around, three dims": lambda x: F.pad(x[None, None, None], (1, 1, 2, 2, 0, 1), mode="circular"), "pad around by nothing": lambda x: F.pad(x[None] * 2, (0, 0), mode="circular"),
}


def found(function, sizes, gradients):
    x = torch.linspace(-1, 1, sizes[0] * sizes[1]).reshape(sizes).sin_().requires_grad_(gradients)
    result = function(x)
    if gradients:
        (result * torch.linspace(0, 1, result.shape[-1])).sum().backward()
    return result.detach(), x.grad


@pytest.mark.parametrize("gradients", (False, True), ids=("plain", "gradients"))
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_compile(name, gradients):
    compiled = torch.compile(PROGRAMS[name], backend="escapement")
    for sizes in SIZES:
        ours, eager = found(compiled, sizes, gradients), found(PROGRAMS[name], sizes, gradients)
        assert ours[0].stride() == eager[0].stride()
        torch.testing.assert_close(ours, eager)
    counted = LEDGER.counters()
    assert (counted["compiles"], counted["graph_breaks"], counted["refused_calls"], counted["skipped_frames"]) == (1, 0, 0, 0), counted


REFUSED = {
    "too large a window": lambda x: F.max_pool1d(x, 40), "padding beyond half": lambda x: F.max_pool1d(x, 2, padding=2), "ranks": lambda x: x.take_along_dim(torch.tensor([0]), 0),
    "sizes": lambda x: x.take_along_dim(torch.zeros(3, 3, dtype=torch.long), 0), "no integers": lambda x: x.take_along_dim(x, 0), "kron of t": lambda x: torch.kron(x.t(), x),
    "a number": lambda x: x.sum().take_along_dim(torch.tensor(0), 0), "no such axis": lambda x: x.take_along_dim(indices(x, 2), 5), "no such axis from the end": lambda x: x.take_along_dim(indices(x, 2), -3),
    "pad around twice": lambda x: F.pad(x[None], (x.shape[1] + 1, 0), mode="circular"),
    "no matrix": lambda x: x[0].fill_diagonal_(1), "several numbers": lambda x: (x * 1).fill_diagonal_(x),
}


@pytest.mark.parametrize("gradients", (False, True), ids=("plain", "gradients"))
@pytest.mark.parametrize("name", REFUSED)
def test_errors(name, gradients):
    with pytest.raises(Exception) as eager:
        REFUSED[name](torch.ones(5, 6, requires_grad=gradients))
    with pytest.raises(type(eager.value)) as ours:
        torch.compile(REFUSED[name], backend="escapement")(torch.ones(5, 6, requires_grad=gradients))
    assert str(ours.value).splitlines()[0] == str(eager.value).splitlines()[0]


def test_other_backends_have_torchs_own():
    before = [dict(operator.py_kernels) for operator in (torch.ops.aten.max_pool1d.default, torch.ops.aten.kron.default)]
    torch.compile(lambda x: F.max_pool1d(x, 2) * torch.kron(x, x).sum(), backend="escapement")(torch.ones(4, 6))
    assert [dict(operator.py_kernels) for operator in (torch.ops.aten.max_pool1d.default, torch.ops.aten.kron.default)] == before


def labels_of(x, seed):
    """Rows of labels that end, or do not, with others behind the end."""
    targets = torch.randint(-1, x.shape[-1], x.shape, generator=torch.Generator().manual_seed(seed))
    targets[..., 0] = targets[..., 0].clamp_min(0)
    if x.dim() == 2 and len(x) > 2:
        targets[1] = -1
        targets[2] = torch.arange(x.shape[-1])
    return targets


@pytest.mark.parametrize("gradients", (False, True), ids=("plain", "gradients"))
@pytest.mark.parametrize("reduction", ("mean", "sum", "none"))
def test_labels_behind_the_end_do_not_count(reduction, gradients):
    """Torch's parts of this loss, which autograd's tracing would take, count them."""
    compiled = torch.compile(F.multilabel_margin_loss, backend="escapement")
    for shape in ((5, 4), (7, 9), (3, 4), (2, 6), (4,), (9,)):
        for seed in range(3):
            x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
            ours, theirs = x.clone().requires_grad_(gradients), x.clone().requires_grad_(gradients)
            targets = labels_of(x, seed)
            result, expected = compiled(ours, targets, reduction=reduction), F.multilabel_margin_loss(theirs, targets, reduction=reduction)
            torch.testing.assert_close(result, expected)
            if gradients:
                result.sum().backward(), expected.sum().backward()
                torch.testing.assert_close(ours.grad, theirs.grad)
    assert LEDGER.counters()["compiles"] == 2   # of either rank


OTHERS_IN_PARTS = {   # what else autograd's tracing takes apart as torch has it
    "multi_margin_loss": lambda x: F.multi_margin_loss(x, torch.arange(x.shape[0]) % x.shape[1])[None], "squared": lambda x: F.multi_margin_loss(x, torch.arange(x.shape[0]) % x.shape[1], p=2, margin=0.3)[None],
    "weighted": lambda x: F.multi_margin_loss(x, torch.arange(x.shape[0]) % x.shape[1], weight=torch.linspace(1, 2, x.shape[1]), reduction="none"),
    "hardshrink": lambda x: F.hardshrink(x * 2, 0.3), "softshrink": lambda x: F.softshrink(x * 2, 0.3), "hardshrink of nan": lambda x: F.hardshrink(x / x.clamp_min(0), 0.3),
}


@pytest.mark.parametrize("name", OTHERS_IN_PARTS)
def test_parts_are_what_the_kernels_do(name):
    compiled = torch.compile(OTHERS_IN_PARTS[name], backend="escapement")
    for sizes in ((5, 6), (7, 9), (1, 4), (3, 1)):
        torch.testing.assert_close(found(compiled, sizes, True), found(OTHERS_IN_PARTS[name], sizes, True), equal_nan=True)


@pytest.mark.parametrize("gradients", (False, True), ids=("plain", "gradients"))
def test_padding_around_batches_of_any_size(gradients):
    compiled = torch.compile(lambda x: F.pad(x * 2, (1, 2, 0, 3), mode="circular") + 1, backend="escapement")
    for shape in ((3, 2, 7, 5), (1, 2, 7, 5), (0, 2, 5, 7), (2, 1, 3, 3), (5, 3, 11, 13), (1, 1, 3, 2)):
        ours = torch.randn(shape).requires_grad_(gradients)
        theirs = ours.detach().clone().requires_grad_(gradients)
        result, expected = compiled(ours), F.pad(theirs * 2, (1, 2, 0, 3), mode="circular") + 1
        assert torch.equal(result, expected) and result.stride() == expected.stride()
        if gradients:
            result.square().sum().backward(), expected.square().sum().backward()
            torch.testing.assert_close(ours.grad, theirs.grad)
    counted = LEDGER.counters()
    assert (counted["compiles"], counted["specialised_dims"], counted["fallbacks"]) == (1, 0, {}), counted
    assert escapement.stats()["launches"] >= 5
