"""round with decimals, angle and count_nonzero: every dtype, sizes 0, 1 and primes, one recording each, whose kernels ran, with eager's bits and signs."""
import pytest
import torch

import escapement

SIZES = [(5, 7), (1, 7), (0, 7), (13, 1), (1, 1), (31, 3), (40, 67), (3, 0)]
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.bool]
PROGRAMS = {"angle": torch.angle, "all": torch.count_nonzero, "rows": lambda x: torch.count_nonzero(x, 0), "both": lambda x: torch.count_nonzero(x, (0, 1)),
            "turned": lambda x: torch.count_nonzero(x.t(), -1), **{f"decimals {d}": (lambda x, d=d: torch.round(x, decimals=d)) for d in (1, 3, -1, -2, 7, 40)}}
CELLS = [(name, dtype) for name in PROGRAMS for dtype in DTYPES if dtype.is_floating_point or "decimals" not in name]


def drawn(size, dtype):
    x = torch.randn(size) * 30
    if x.numel() > 4:
        x.view(-1)[:4] = torch.tensor([float("nan"), float("inf"), -0.0, 0.0])
    return x.to(dtype) if dtype.is_floating_point else x.nan_to_num(0, 5).to(dtype)


def shown(t):
    wide = t.double()
    return torch.nan_to_num(wide, nan=7e7, posinf=8e7, neginf=-8e7), torch.signbit(wide) | wide.isnan()


@pytest.mark.parametrize("name, dtype", CELLS)
def test_as_eagerly(name, dtype):
    escapement.reset()
    torch.manual_seed(3)
    function = PROGRAMS[name]
    compiled = escapement.jit(function)
    for size in SIZES * 2:
        x = drawn(size, dtype)
        ours, eager = compiled(x), function(x)
        assert (ours.dtype, ours.shape, ours.stride()) == (eager.dtype, eager.shape, eager.stride())
        assert all(map(torch.equal, shown(ours), shown(eager))), size
    counted = escapement.stats()
    assert counted["recordings"] == 1 and counted["hits"] == 15 and counted["launches"] > 0 and not counted.get("library_calls"), counted
