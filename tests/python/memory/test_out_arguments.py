"""out= in call mode: operators of every way of recording, into targets that fit, that are views or strided, that grow, at several sizes from several
first sizes, against eager. What grows or is given another shape is recorded or refused under a name (`argument_reshaped`), never an internal error.
"""
import pytest
import torch

import escapement

pytestmark = pytest.mark.usefixtures("fresh")
SIZES = ((3, 2), (1, 1), (0, 2), (2, 0), (5, 3), (1, 7), (2, 1))

OPERATORS = {
    "sqrt": lambda x, out: torch.sqrt(x, out=out),
    "neg": lambda x, out: torch.neg(x, out=out),
    "mul by a number": lambda x, out: torch.mul(x, 2, out=out),
    "add of another": lambda x, out: torch.add(x, x[:1], out=out),
    "addcmul": lambda x, out: torch.addcmul(x, x, x, out=out),
    "frac": lambda x, out: torch.frac(x, out=out),
    "sum": lambda x, out: torch.sum(x, 0, keepdim=True, out=out),
    "cumsum": lambda x, out: torch.cumsum(x, 0, out=out),
}
OPERANDS = {
    "plain": lambda x: x * 1,
    "argument": lambda x: x,
    "transposed": lambda x: x.t() * 1,
    "sorted, permuted": lambda x: x.t().sort(0).values,
    "another axis": lambda x: x.unfold(0, 1, 1) * 2,
}
TARGETS = {
    "itself": lambda x, y: y,
    "fits": lambda x, y: torch.empty_like(y),
    "clone of the argument": lambda x, y: x.clone(),
    "argument": lambda x, y: x,
    "nothing": lambda x, y: y.new_empty(0),
    "nothing, of two axes": lambda x, y: y.new_empty(0, 0),
    "flat view": lambda x, y: x.view(-1),
    "transposed view": lambda x, y: torch.zeros_like(x).t(),
    "larger": lambda x, y: y.new_empty(y.numel() + 2),
}


def program(operator, operand, target):
    def function(x):
        y = OPERANDS[operand](x)
        found = OPERATORS[operator](y, TARGETS[target](x, y))
        return found, found * 2
    return function


def outcome(function, size):
    x = torch.arange(float(size[0] * size[1])).reshape(size) / 8
    try:
        found = function(x)
    except (RuntimeError, IndexError) as error:
        return type(error), x.tolist()
    return [(part.tolist(), tuple(part.shape), strides(part)) for part in (*found, x)]


def strides(tensor):
    """Where they address anything."""
    return tensor.numel() and [stride for size, stride in zip(tensor.shape, tensor.stride()) if size > 1]


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("operand", OPERANDS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_out_is_eagers(operator, operand, target):
    function = program(operator, operand, target)
    with torch.no_grad():
        for first in (0, 2, 4):
            jitted = escapement.jit(function, max_recordings=64)
            for size in (SIZES[first:] + SIZES[:first]) * 2:
                assert outcome(jitted, size) == outcome(function, size), size
            for region in jitted.info()["regions"]:
                assert "internal_error" not in region["fallbacks"], region["fallbacks"]
                assert region["recordings"] <= len(SIZES) + 2, region["recordings"]


@pytest.mark.parametrize("wrap", [False, True])
def test_a_diagonal_is_filled_at_all_sizes_by_one_recording(wrap):
    def function(x):
        return x.fill_diagonal_(7, wrap=wrap)

    jitted = escapement.jit(function)
    with torch.no_grad():
        for rows, columns in ((0, 0), (3, 5), (1, 1), (5, 3), (7, 2), (0, 2), (1, 0), (3, 3)):
            mine, eager = torch.zeros(rows, columns), torch.zeros(rows, columns)
            assert torch.equal(jitted(mine), function(eager)) and torch.equal(mine, eager), (rows, columns)
    assert jitted.info()["recordings"] == 1 and not jitted.info()["regions"][0]["fallbacks"]


@pytest.mark.parametrize("first", [0, 1, 2])
def test_what_is_contiguous_already_was_not_made_in_inference_mode(first):
    """Of a tensor without elements `contiguous()` is the tensor itself, which was made elsewhere."""
    def function(x):
        return x.t().contiguous(), x.t().contiguous()[0:], (x * 2).t().contiguous(), x.t().reshape(-1)

    sizes = ((3, 5), (0, 2), (1, 3), (2, 0), (5, 2))
    jitted = escapement.jit(function)
    for rows, columns in (sizes[first:] + sizes[:first]) * 2:
        x = torch.ones(rows, columns)
        with torch.inference_mode():
            ours, eager = jitted(x), function(x)
            assert [t.is_inference() for t in ours] == [t.is_inference() for t in eager], (rows, columns)
            assert all(map(torch.equal, ours, eager))
