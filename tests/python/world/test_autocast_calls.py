"""Operators without an autocast kernel of their own, recorded as one call, run their parts under autocast when the recording runs: as
eager does, whether autocast is the caller's or a block's of an exported program."""

import pytest
import torch
import torch.nn.functional as F

import escapement
from harness import seeded

pytestmark = pytest.mark.usefixtures("fresh")

torch.manual_seed(0)
LSTM, GRU = torch.nn.LSTM(8, 8, batch_first=True).eval(), torch.nn.GRU(8, 8).eval()
CELL, BILINEAR = torch.nn.LSTMCell(8, 8), torch.nn.Bilinear(8, 8, 3)

PROGRAMS = {
    "cov": lambda x: torch.cov(x),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "einsum, widened": lambda x: torch.einsum("ij,kj->ik", x, x).float() + 1,
    "tensordot": lambda x: torch.tensordot(x, x, ([1], [1])),
    "inner": lambda x: torch.inner(x, x),
    "chain_matmul": lambda x: torch.chain_matmul(x, x.t(), x),
    "multi_dot": lambda x: torch.linalg.multi_dot([x, x.t(), x]),
    "cdist": lambda x: torch.cdist(x, x),
    "lstm": lambda x: LSTM(x[None])[0],
    "gru": lambda x: GRU(x[None])[0],
    "lstm_cell": lambda x: CELL(x)[0],
    "bilinear": lambda x: BILINEAR(x, x),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "sort": lambda x: torch.sort(x @ x.t(), stable=True)[0],
}
SIZES = (5, 5, 7, 2, 13, 1)


def rows(n):
    return torch.randn(n, 8, generator=seeded(n))


def near(ours, eager):
    rough = 1e-5 if eager.dtype == torch.float32 else 1e-2
    torch.testing.assert_close(ours, eager, rtol=rough, atol=rough, equal_nan=True)


def skip_what_the_processor_lacks(function, dtype):
    """oneDNN has LSTM and products in float16 for some processors and sizes only, and raises for the others."""
    try:
        with torch.autocast("cpu", dtype):
            for n in SIZES:
                function(rows(n))
    except RuntimeError as error:
        if "primitive descriptor" in str(error):
            pytest.skip(str(error).partition(".")[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
@torch.no_grad()
def test_under_the_callers_autocast(name, dtype):
    skip_what_the_processor_lacks(PROGRAMS[name], dtype)
    made = escapement.jit(PROGRAMS[name])
    for n in SIZES:
        with torch.autocast("cpu", dtype):
            near(made(rows(n)), PROGRAMS[name](rows(n)))
            assert torch.get_autocast_dtype("cpu") == dtype and torch.is_autocast_enabled("cpu") and torch.is_autocast_cache_enabled()
        near(made(rows(n)), PROGRAMS[name](rows(n)))
    info = made.info()
    # cov and attention have another result, or another kernel, for one row
    assert info["recordings"] <= (8 if name in ("cov", "attention") else 3) and not info["eager"], info
    assert sum(version["hits"] for region in info["regions"] for version in region["versions"]) >= 4, info


@torch.no_grad()
def test_the_precision_is_eagers():
    """Products in bfloat16 and in float32 are told apart by what they round."""
    x = rows(7)
    made, differ = escapement.jit(PROGRAMS["lstm_cell"]), 0
    with torch.autocast("cpu", torch.bfloat16):
        made(x)
        ours, eager = made(rows(5)), PROGRAMS["lstm_cell"](rows(5))
    differ = (eager - PROGRAMS["lstm_cell"](rows(5))).abs().max()
    assert torch.equal(ours, eager) and differ > 1e-4


@torch.no_grad()
def test_behind_a_write():
    """What comes out is known before the call, so nothing is noticed behind an effect."""
    def program(a):
        a[..., 0] += 1
        return torch.cov(a), LSTM(a[None])[0]

    made = escapement.jit(program)
    with torch.autocast("cpu", torch.bfloat16):
        try:
            program(rows(3))
        except RuntimeError as error:
            pytest.skip(f"not in eager on this processor: {error}")
    for n in (1, 1, 3, 3, 1, 5):
        with torch.autocast("cpu", torch.bfloat16):
            mine, theirs = rows(n), rows(n)
            for ours, eager in zip(made(mine), program(theirs)):
                near(ours, eager)
            assert torch.equal(mine, theirs)


class Blocks(torch.nn.Module):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = torch.einsum("ij,kj->ik", x, x)
            with torch.autocast("cpu", enabled=False):
                z = torch.einsum("ij,kj->ik", x, x)
        return y, z, torch.einsum("ij,kj->ik", x, x)


@torch.no_grad()
def test_in_a_block_of_an_exported_program(tmp_path):
    path = tmp_path / "model.pt2"
    with torch.enable_grad():
        torch.export.save(torch.export.export(Blocks(), (rows(5),), dynamic_shapes=({0: torch.export.Dim.AUTO},)), path)
    model, theirs = escapement._C.load_exported(str(path), {"strict": True}), torch.export.load(path).module()
    for n in SIZES:
        for ours, eager in zip(model(rows(n)), theirs(rows(n))):
            assert ours.dtype == eager.dtype
            near(ours, eager)
    assert not torch.is_autocast_enabled("cpu") and escapement.stats()["recordings"] == 1
