"""Every row of src/trace/ops.def on the twin device against the CPU's kernels, bit for bit: the programs, shapes and layouts of operators/test_every_op.py."""

import pathlib
import sys

import pytest
import torch
from harness import assert_exact, compiled, layouts, seeded, values
from twin import counted, here

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "operators"))
import test_every_op as table  # noqa: E402

# What makes tensors must say where.
MADE_HERE = {
    "full": (lambda x: x + torch.full((x.shape[-1],), 2.5, device=x.device), 1),
    "arange": (lambda x: x + torch.arange(x.shape[-1], device=x.device), 1),
}
PROGRAMS = {**table.PROGRAMS, **MADE_HERE}
LOOKED_UP = {"embedding", "index_select", "gather"}   # by ATen, with kernels around


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_row(name):
    function, arity = PROGRAMS[name]
    there, on_cpu, generator = compiled(function, arity), compiled(function, arity), seeded(name)
    launched = counted("device_launches")
    for shape in table.shapes(name):
        special = table.ROWS[name]["kind"] == "pointwise"
        args = [values(shape, torch.float32, generator, special) for _ in range(arity)]
        for layout in zip(*[list(layouts(a)) for a in args]):
            tensors = [t for _, t in layout]
            there(*here(tensors)), on_cpu(*tensors)   # a recording's own results are eager's
            assert_exact(there(*here(tensors)).cpu(), on_cpu(*tensors))
    info = there.info()
    assert not info["fallbacks"], info["fallbacks"]
    assert counted("device_launches") > launched and any(version["kernels"] for version in info["versions"])
    assert info["recordings"] == on_cpu.info()["recordings"]
    if name in LOOKED_UP:
        assert any(version["calls"] for version in info["versions"])


HALVES = ["add", "mul", "sub", "div", "relu", "sigmoid", "tanh", "exp", "sum", "softmax", "layer_norm", "gelu", "where", "mean", "amax", "pow"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("name", [name for name in HALVES if name in PROGRAMS])
def test_row_in_other_dtypes(name, dtype):
    function, arity = PROGRAMS[name]
    there, on_cpu, generator = compiled(function, arity), compiled(function, arity), seeded(name, dtype)
    for shape in [(5, 7), (1, 1), (31, 64), (3, 1030)]:
        tensors = [values(shape, dtype, generator, False) for _ in range(arity)]
        there(*here(tensors)), on_cpu(*tensors)
        assert_exact(there(*here(tensors)).cpu(), on_cpu(*tensors))
    assert not there.info()["fallbacks"]
