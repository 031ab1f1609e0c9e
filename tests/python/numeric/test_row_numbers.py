"""The numbers of rows, read from src/trace/numbers.def: one that may vary takes no more recordings than the number in `x * v`, and
kernels serve tensors of no, one and some elements with eager's bits; each other one is a recording of its own."""
import re
from pathlib import Path

import pytest
import torch

import escapement
from answered import Counted
from harness import assert_ulp

TRACE = Path(__file__).parents[3] / "src/trace"
NUMBERS = re.findall(r'^NUMBER\((\w+),\s*(value2?),\s*"(\w+)",\s*([-\d.]+),\s*(yes|no)\)', (TRACE / "numbers.def").read_text(), re.M)
ROWS = {name: (int(arity), aten) for name, arity, aten in re.findall(r'^OP\((\w+),\s*pointwise,\s*(\d),[^"]*"([^"]+)"', (TRACE / "ops.def").read_text(), re.M)}
WHOLE = {"decimals"}     # an integer
VALUES = [0.5, 0.25, 1.5, 2.0, 0.125, 3.0, 1.0]
OF_A_PRODUCT = 3         # two for the first values, one for all others
SIZES = [(7, 5), (1, 5), (0, 5), (13, 1), (31, 3), (1, 1), (2, 5)]


def call(op, chosen):
    arity, aten = ROWS[op]
    operator = getattr(torch.ops.aten, aten.partition(":")[0])
    required = {name: 1.0 for row, _, name, _, _ in NUMBERS if row == op and name != chosen and op in ("threshold", "threshold_backward")}
    keywords = {"reduction": 0} if aten.endswith("_loss") else {}
    return lambda v, *tensors: operator(*tensors[:arity], **{chosen: v}, **required, **keywords)


def test_the_table_is_read():
    assert len(NUMBERS) > 15 and {op for op, *_ in NUMBERS} <= set(ROWS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("op, name, varies", [(op, name, varies) for op, _, name, _, varies in NUMBERS])
def test_a_number_that_differs_between_calls(op, name, varies, dtype):
    escapement.reset()
    function, generator = call(op, name), torch.Generator().manual_seed(7)
    ours = Counted(lambda *given: function(*given))
    values = [int(v * 2) for v in VALUES] if name in WHOLE else VALUES
    for value, size in ours.twice(list(zip(values, SIZES))):
        tensors = [(torch.randn(size, generator=generator) * 3).to(dtype) for _ in range(3)]
        got, expected = ours(value, *tensors), function(value, *tensors)
        assert got.dtype == expected.dtype and got.shape == expected.shape and got.stride() == expected.stride()
        assert_ulp(got, expected, 2)
    ours.expect()
    counted = escapement.stats()
    if varies == "yes" and dtype in (torch.float32, torch.float64):
        assert counted["recordings"] == OF_A_PRODUCT and counted["launches"] > 10 and not counted.get("library_calls"), counted
