"""Random programs (tests/fuzz) on the twin device: as the device's own eager run, and nothing of the host reaches into its memory, which would end the
process. Kernels are compared bit for bit elsewhere (on_twin_operators.py)."""

import pathlib
import sys

import pytest
import torch
import torch.utils._pytree as pytree
from twin import counted, here

import escapement

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "fuzz"))
from arguments import drawn  # noqa: E402
from generate import generated  # noqa: E402

SEEDS = [seed for seed in range(60) if "as_strided" not in generated(seed).source()][:45]   # behind the memory of a tensor may be anything


def run(function, arguments):
    """Results and arguments afterwards, on the host; or what was raised."""
    torch.manual_seed(1234)
    try:
        with torch.no_grad():
            result = function(*arguments)
    except Exception as error:
        return type(error), error
    return None, [leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf for leaf in pytree.tree_leaves([result, arguments])]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", SEEDS)
def test_program(seed):
    program = generated(seed)
    fast, eager = escapement.jit(program.function(), **dict(program.options)), program.function()
    for call in program.calls * 2:
        (raised, theirs), (ours_raised, ours) = [run(f, here(list(drawn(program.arguments, call).values()))) for f in (eager, fast)]
        assert (raised is None) == (ours_raised is None), (theirs, ours)
        if raised is None:
            for x, y in zip(theirs, ours, strict=True):
                half = isinstance(x, torch.Tensor) and x.dtype in (torch.half, torch.bfloat16)
                torch.testing.assert_close(y, x, rtol=2e-2 if half else 1e-3, atol=3e-2 if half else 1e-3, equal_nan=True)


def test_most_of_them_ran_on_the_device():
    assert counted("device_launches") > 5 * len(SEEDS) and counted("hits") > 2 * len(SEEDS)
