"""Every method that torch's Python side may call on a symbolic number is there on the core's numbers, and answers as eager's number does."""

import math

import pytest
import torch
from torch.fx.experimental import sym_node

from escapement.recording import dispatch

pytestmark = pytest.mark.usefixtures("fresh")

# Of a tracer with a ShapeEnv only: asked where the node is known to be of torch's own class.
TRACERS_OWN = {"evaluate", "expr", "hint", "with_shape_env", "str", "is_non_overlapping_and_dense_indicator"}


def test_no_method_is_missing():
    dispatch.complete_sym_node()
    wanted = {name for name in dir(sym_node.SymNode) if not name.startswith("_")} - TRACERS_OWN
    assert sorted(wanted - set(dir(torch._C._SymNode))) == []


PROGRAMS = {
    "truth of a tensor": lambda x: x * (2 if (x.sum() > 20).item() else 3),
    "truth as a fill": lambda x: torch.full((2,), (x > 3).any().item()),
    "truth in where": lambda x: torch.where(x > 2, (x > 3).any().item(), x),
    "sym_ite of sizes": lambda x: x * torch.sym_ite(x.shape[0] > 3, x.shape[0], 2),
    "is_integer": lambda x: x * (x.shape[0] / 2).is_integer(),
    "is_integer of a value": lambda x: x * x.sum().item().is_integer(),
    "is_integer of infinity": lambda x: x * (x.sum() / 0).item().is_integer(),
    "sym_not": lambda x: x * torch.sym_not(x.shape[0] > 3),
    "sums": lambda x: x + torch.sym_sum([x.shape[0], x.shape[1]]) + torch.sym_max(x.shape[0], 2.5) + torch.sym_min(x.shape[0], 2),
    "mathematics": lambda x: x * math.floor(x.shape[0] / 2) * math.ceil(x.shape[0] / 2) * math.sqrt(x.shape[0]) * math.trunc(x.shape[0] / 3),
    "bits": lambda x: x * (x.shape[0] & 3) * (x.shape[0] | 1) * (x.shape[0] << 1),
    "rounding": lambda x: x * round(x.shape[0] / 2) * abs(x.shape[0] - 3) * divmod(x.shape[0], 2)[1],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name):
    compiled = torch.compile(PROGRAMS[name], backend="escapement")
    for shape in ((4, 5), (3, 5), (1, 5), (7, 2), (0, 5)):
        x = torch.arange(1.0, 1 + math.prod(shape)).view(shape)
        ours, eager = compiled(x), PROGRAMS[name](x)
        assert ours.dtype == eager.dtype
        torch.testing.assert_close(ours, eager, equal_nan=True)
