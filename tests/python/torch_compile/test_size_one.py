"""What torch.compile's tracer answers about sizes 0 and 1 without looking (python/escapement/steering/oblivious.py): an answer that can be seen,
in a rank, a length, a stride, a value, an alias or an error, is a guard; one that cannot be seen is no compile.

Each program is called at sizes 0, 1 and primes, in several orders of the first size, with and without gradients.
"""

import pytest
import torch
import torch.nn.functional as F
from harness import bits

import escapement

pytestmark = pytest.mark.usefixtures("fresh")

ORDERS = (((5, 7), (1, 7), (5, 1), (1, 1), (0, 7), (2, 3)), ((1, 7), (5, 7), (1, 1), (3, 1)), ((1, 1), (5, 7), (1, 3), (2, 1)))

RANKS = {
    "dim": lambda x: x * x.squeeze(0).dim(),
    "all": lambda x: x + x.squeeze().ndim,
    "several": lambda x: x + x.squeeze((0, 1)).ndim,
    "length": lambda x: x * len(x.squeeze(0).shape),
    "sizes": lambda x: (x * 1, *x.squeeze(0).shape),
    "first size": lambda x: x + (x.squeeze(1).shape + (3,))[1],
    "atleast_3d": lambda x: x + torch.atleast_3d(x).squeeze(0).shape[0],
    "reduced": lambda x: x + x.sum(0).squeeze().dim(),
    "kept": lambda x: x + x.mean(1, keepdim=True).squeeze(0).dim(),
    "in place": lambda x: x + (x * 1).squeeze_(0).dim(),
    "expanded": lambda x: x + x.expand(2, *x.shape).squeeze(1).dim(),
    "unsqueezed": lambda x: x + x.unsqueeze(0).squeeze().dim(),
    "squeezed and joined": lambda x: torch.cat([x.squeeze(0).reshape(-1), x.reshape(-1)]),
    "unbind": lambda x: x + x.squeeze(0).unsqueeze(0).dim(),
    "indexed": lambda x: x + x.squeeze(1)[..., None].dim(),
    "broadcast": lambda x: x + torch.broadcast_tensors(x, x.squeeze(0))[1].dim(),
    "matmul": lambda x: (x, (x @ x.t().squeeze(1)).dim()),
    "diagonal": lambda x: x + torch.diag(x.squeeze(0)).dim(),
    "nonzero": lambda x: x + len(x.squeeze(0).nonzero(as_tuple=True)),
    "meshgrid": lambda x: x + torch.meshgrid(x[:, 0], x[0], indexing="ij")[1].squeeze().dim(),
    "transposed": lambda x: x * (2 if x.squeeze(0).dim() == x.t().squeeze(0).dim() else 3),
    "flattened": lambda x: x + x.squeeze(0).flatten().shape[0],
    "host branch": lambda x: x.sum(0) if x.squeeze(0).ndim == 2 else x.sum(0) * 2,
}

LAYOUTS = {
    "contiguous": lambda x: (x * 1, (x * 2).t().is_contiguous()),
    "column": lambda x: (x * 1, (x * 2)[:, :1].is_contiguous()),
    "branch": lambda x: x * (2 if (x + 1).t().is_contiguous() else 3),
    "channels last": lambda x: (x * 1, (x * 2)[None, None].is_contiguous(memory_format=torch.channels_last)),
    "input": lambda x: (x * 1, x.t().is_contiguous(), x.stride()),
    "strides": lambda x: (x * 1, (x * 2).stride()),
    "copy": lambda x: (x * 1, x.t().contiguous().is_contiguous(), x.t().clone().is_contiguous()),
    "sum of a transposed": lambda x: (x * 1, (x.t() + x.t()).is_contiguous()),
    "as_strided": lambda x: (x * 2).as_strided((1,), (x * 2).stride()[-1:]),
}


def shared(x):
    y = x.t().contiguous()
    y.add_(1)
    return x * 1


def reshaped(x):
    y = x.t().reshape(-1)
    y.mul_(2)
    return x + 1


def of_its_own(x):
    z = x * 2
    y = z.t().reshape(-1)
    z.add_(1)
    return y * 1


def channels(x):
    z = x * 2
    y = z[None, None].contiguous(memory_format=torch.channels_last)
    z.add_(1)
    return y * 1


def column(x):
    z = x + 0
    y = z[:, :1].expand(-1, z.shape[1]).reshape(-1)
    y.add_(1)
    return z * 1


def squeezed(x):
    z = x * 2
    z.squeeze(0).add_(1)
    return z * 1, z.squeeze().dim()


def every_second(x):
    z = x * 2
    y = z[:, ::2].reshape(-1)
    y *= 3
    return z + 1


def first_column(x):
    z = x * 2
    F.relu(z[:, :1].reshape(-1) - 3, True)
    torch.relu_(torch.flatten(z[:, :1]).sub_(3))
    return z + 1


def by_part(x):
    z = x * 2
    y = torch.ravel(z[:, :1])
    y[:1] = 7
    return z + 1


ALIASES = {program.__name__: program for program in (shared, reshaped, of_its_own, channels, column, squeezed, every_second, first_column, by_part)}

# One compile for every size: what these ask cannot be seen.
FREE = {
    "transposed": lambda x: x.t() + 1,
    "matmul": lambda x: x @ x.t(),
    "softmax": lambda x: x.softmax(0),
    "slice": lambda x: x[1:] * 2,
    "joined": lambda x: torch.cat([x, x * 2]),
    "gather": lambda x: x.gather(0, (x > 100).long()) * 2,
    "scatter": lambda x: (x * 1).scatter(1, (x > 100).long(), x),
    "norm": lambda x: x.norm(dim=1) + 1,
    "where": lambda x: torch.where(x > 0, x, x * 2),
    "normalize": lambda x: F.normalize(x) * 2,
}


# Sizes that only the data tell: what 1 would decide is no assumption of the graph, but left to the program.
DATA = {
    "rank": lambda x: (x * 2, x[x > 0].squeeze().dim()),
    "shape": lambda x: (x * 2, x[x > 0].squeeze(0).shape[:1], tuple(x.nonzero().squeeze().shape)),
    "branch": lambda x: x * 2 if x[x > 0].squeeze(0).dim() else x + 1,
    "expanded": lambda x: x[x > 0].expand(x.shape[0]) if x[x > 0].shape[0] == 1 else x * 2,
    "broadcast": lambda x: x[x > 0] + x[x > 0][:1],
    "joined": lambda x: torch.cat([x[x > 0].squeeze().reshape(-1), x]),
    "vmap": lambda x: torch.func.vmap(torch.func.vmap(lambda v: v * 2 + v.sum()))(x[None, :, None].expand(2, -1, 3)),
}


def arrange(shape, grad):
    leaf = (torch.arange(shape[0] * shape[1], dtype=torch.float32).view(shape) / 8 + 1).requires_grad_(grad)
    return leaf * 1


def outcome(program, x):
    """Results and the argument afterwards, or the class of the exception."""
    try:
        result = program(x)
    except Exception as error:
        return type(error), None
    return result, x


def same(ours, eager):
    if isinstance(eager, torch.Tensor):
        assert isinstance(ours, torch.Tensor) and ours.shape == eager.shape and ours.dtype == eager.dtype
        torch.testing.assert_close(bits(ours.detach()), bits(eager.detach()), rtol=1e-6, atol=1e-6)
    elif isinstance(eager, (tuple, list)):
        assert type(ours) is type(eager) and len(ours) == len(eager)
        for mine, theirs in zip(ours, eager):
            same(mine, theirs)
    else:
        assert ours == eager, (ours, eager)


def compare(program, grad, orders=ORDERS):
    for shapes in orders:
        torch._dynamo.reset()
        compiled = torch.compile(program, backend="escapement")
        for shape in shapes:
            same(outcome(compiled, arrange(shape, grad)), outcome(program, arrange(shape, grad)))


@pytest.mark.parametrize("grad", (False, True), ids=("inference", "training"))
@pytest.mark.parametrize("name", RANKS)
def test_the_host_reads_a_rank(name, grad):
    compare(RANKS[name], grad, ORDERS if not grad else ORDERS[:1])


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_host_reads_a_layout(name):
    compare(LAYOUTS[name], False, [[shape for shape in shapes if 1 not in shape or name != "strides"] for shapes in ORDERS])


@pytest.mark.parametrize("grad", (False, True), ids=("inference", "training"))
@pytest.mark.parametrize("name", ALIASES)
def test_a_copy_that_is_a_view_where_a_size_is_one(name, grad):
    compare(ALIASES[name], grad)


@pytest.mark.parametrize("programs", (RANKS, LAYOUTS, ALIASES), ids=("ranks", "layouts", "aliases"))
def test_the_same_without_gradients(programs):
    """No graph goes through AOTAutograd there: what copies or is a view is the recorded operator's to say."""
    with torch.no_grad():
        for name, program in programs.items():
            compare(program, False, [[shape for shape in shapes if 1 not in shape or name != "strides"] for shapes in ORDERS])


@pytest.mark.parametrize("name", DATA)
def test_a_size_of_the_data_that_is_one(name):
    compiled = torch.compile(DATA[name], backend="escapement")
    for values in ([1, -2, 3], [-1, -2, 3], [-1, -2, -3], [1, 2, 3, 4], [5], []):
        x = torch.tensor(values, dtype=torch.float32)
        same(outcome(compiled, x), outcome(DATA[name], x.clone()))


def test_a_mask_whose_length_nobody_compares_is_one_graph():
    """torch does not ask there whether the length is 1, and neither is anything left to the program."""
    compiled = torch.compile(lambda x: (x[x > 0] * 2).relu().sum(), backend="escapement", fullgraph=True)
    for values in ([1.0, -2, 3], [-1.0], [4.0, 5, 6, 7, 8]):
        assert compiled(torch.tensor(values)) == sum(2 * v for v in values if v > 0)


@pytest.mark.parametrize("name", FREE)
def test_what_cannot_be_seen_is_no_compile(name):
    compare(FREE[name], False, ORDERS[:1])
    assert escapement.stats()["dynamo"]["compiles"] == 1


def test_a_rank_is_two_versions_and_told():
    """One for size 1, one for all others; explain() names the relation."""
    def program(x):
        return x * x.squeeze(0).dim()

    compiled = torch.compile(program, backend="escapement")
    for size in (5, 7, 1, 11, 0, 1, 2):
        x = torch.randn(size, 3)
        assert torch.equal(compiled(x), program(x))
    assert escapement.stats()["dynamo"]["compiles"] == 2
    assert "L['x'].size(0) != 1" in str(escapement.explain(program)(torch.randn(5, 3)))


def test_an_unknown_question_is_a_guard(monkeypatch):
    """A row that is left out costs a version, never an answer."""
    from escapement.steering import oblivious

    monkeypatch.setattr(oblivious, "TABLE", {})
    compare(lambda x: x.t() + x.squeeze(0).dim(), False, ORDERS[:1])
    assert escapement.stats()["dynamo"]["compiles"] > 1
