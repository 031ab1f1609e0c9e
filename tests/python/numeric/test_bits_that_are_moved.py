"""What is only moved or chosen has its bits afterwards: those of every NaN, too, since programs keep other things than numbers in half types.
Results are compared with those of integers. (ATen's own `gather` and `scatter` make signalling NaN quiet; they are not here.)"""

import pytest
import torch
import torch.nn.functional as F

import escapement

BITS = {torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.float32: torch.int32}
NANS = {   # signalling and quiet, of both signs, with payloads; and numbers besides, the smallest among them
    torch.bfloat16: (0x7f81, -0x7f, 0x7fc1, -0x40, -1, 0x7f80, 0x0001, -0x7fff, 0x3f80, 0, -0x8000),
    torch.float16: (0x7c01, -0x3ff, 0x7e01, -0x200, -1, 0x7c00, 0x0001, -0x7fff, 0x3c00, 0, -0x8000),
    torch.float32: (0x7f800001, -0x7fffff, 0x7fc00001, -0x400000, -1, 0x7f800000, 0x0001, -0x7fffffff, 0x3f800000, 0, -0x80000000),
}
MOVES = {
    "clone": lambda a: a.clone(),
    "transposed": lambda a: a.t().contiguous(),
    "every second": lambda a: a[:, ::2].contiguous(),
    "reversed": lambda a: a.flip(0),
    "rolled": lambda a: a.roll(3, 1),
    "repeated": lambda a: a.repeat(2, 3),
    "expanded": lambda a: a[:1].expand(40, -1).contiguous(),
    "cat": lambda a: torch.cat([a, a], 1),
    "stack": lambda a: torch.stack([a, a], -1),
    "padded": lambda a: F.pad(a, (1, 2)),
    "picked": lambda a: a[torch.arange(a.shape[0] - 1)],
    "chosen": lambda a: torch.where(torch.arange(a.shape[1]) % 2 == 0, a, a.flip(0)),
    "filled": lambda a: a.masked_fill(torch.arange(a.shape[1]) % 3 == 0, 0),
    "lower": lambda a: a.tril(),
    "copied over": lambda a: torch.zeros_like(a).copy_(a),
    "written in place": lambda a: assigned(a.clone()),
}
LEFT_TO_ATEN = {"reversed"}


def assigned(a):
    a[:-1] = a[1:].clone()
    return a


def made(dtype, rows, columns):
    pattern = torch.tensor(NANS[dtype], dtype=torch.int64).to(BITS[dtype])
    return pattern.repeat(rows * columns // len(pattern) + 1)[:rows * columns].view(rows, columns).view(dtype)


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("dtype", BITS, ids=str)
@pytest.mark.parametrize("move", MOVES)
def test_bits(move, dtype, mode):
    compiled = escapement.jit(MOVES[move], mode=mode)
    before = escapement.stats().get("launches", 0)
    for rows, columns in ((2, 3), (9, 37), (1, 130), (1, 1), (40, 33), (2, 0), (9, 37)):
        a = made(dtype, rows, columns)
        assert torch.equal(compiled(a).view(BITS[dtype]), MOVES[move](a.view(BITS[dtype]))), (rows, columns)
    assert (escapement.stats().get("launches", 0) > before) == (move not in LEFT_TO_ATEN)
