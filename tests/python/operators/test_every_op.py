"""Every row of src/trace/ops.def through the recorder and LLVM against eager: random shapes (0, 1, primes), strides, offsets; and
each is one recording for all sizes, whose kernels run (counted).

A pointwise row that is a function of torch's by name needs nothing here; any other row has an entry in UNARY or BINARY. A row
without a program fails, and so does a program whose op never reached a kernel. Dtypes are swept in test_ops_pointwise.py and
test_ops_reduce.py; what the stages before LLVM make of a row is compared in tests/unit and tests/golden."""

import random
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from harness import assert_exact, assert_near_fp64, assert_ulp, compiled, layouts, seeded, values

import escapement

ROW = re.compile(r'^OP\((?P<name>\w+),\s*(?P<kind>\w+),\s*(?P<arity>-?\d+),\s*\w+,\s*(?P<domain>\w+),\s*(?P<tier>\w+),\s*"(?P<aten>[^"]*)"', re.MULTILINE)
ROWS = {row["name"]: row for row in ROW.finditer(Path(__file__).parents[3].joinpath("src/trace/ops.def").read_text())}
CALLED = {"linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "attention", "call"}  # run by a library: test_models.py
SIZES = [0, 1, 2, 3, 5, 7, 13, 31, 64, 127]
A = torch.ops.aten


def positions(x, limit):
    """Valid positions derived from a float tensor, in its shape."""
    return (x.nan_to_num(0, 0, 0).abs() * 7).long() % limit


def in_place(x):
    y = x + 1
    y[:, :1].mul_(2)
    return y * 3


UNARY = {
    "copy": torch.clone, "cast": lambda x: x.double(), "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "threshold": lambda x: F.threshold(x, 0.1, -3.0), "hardtanh": F.hardtanh, "relu6": F.relu6, "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish, "bitwise_not": lambda x: ~(x > 0), "silu": F.silu, "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "elu": F.elu, "softplus": F.softplus, "mish": F.mish, "log_sigmoid": F.logsigmoid,
    "sum": lambda x: x.sum(-1), "prod": lambda x: (x * 0.01 + 1).prod(-1), "amax": lambda x: x.amax(0), "amin": lambda x: x.amin(-1),
    "count_nonzero": lambda x: torch.count_nonzero(x > 9, -1), "round_decimals": lambda x: torch.round(x, decimals=2),
    "argmax": lambda x: x.argmax(-1), "argmin": lambda x: x.argmin(0), "any": lambda x: (x > 9).any(0), "all": lambda x: (x > 0).all(-1),
    "alias": lambda x: torch.ops.aten.alias(x) + 1, "detach": lambda x: x.detach() + 1,
    "reshape": lambda x: x.contiguous().view(-1) + 1, "permute": lambda x: x.t() * 2,
    "expand": lambda x: x.unsqueeze(0).expand(3, *x.shape) + x, "unsqueeze": lambda x: x.unsqueeze(1) + x, "slice": lambda x: x[:, ::2] * 2,
    "squeeze": lambda x: x.unsqueeze(0).squeeze(0) * 2, "select": lambda x: torch.cat([x, x])[0] * 2,
    "as_strided": lambda x: torch.as_strided(x.contiguous().view(-1) + 1, (x.numel(),), (1,)) * 2,
    "full": lambda x: x + torch.full((x.shape[-1],), 2.5), "arange": lambda x: x + torch.arange(x.shape[-1]),
    "embedding": lambda x: F.embedding(positions(x, 4), torch.cat([x, x.new_ones(4, x.shape[1])])) + 1,
    "index_select": lambda x: torch.index_select(torch.cat([x, x.new_ones(4, x.shape[1])]), 0, positions(x, 4).flatten()) * 2,
    "gather": lambda x: torch.gather(torch.cat([x, x.new_ones(4, x.shape[1])]), 0, positions(x, 4)) * 2,
    "cat": lambda x: torch.cat([x, x * 2, x], -1) + 1, "pad": lambda x: F.pad(x, (1, 2, 0, 3), value=1.5) * 2,
    "mean": lambda x: x.mean(-1), "var": lambda x: torch.cat([x, x * 2], -1).var(-1), "std": lambda x: torch.cat([x, x * 2]).std(0),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=-1), "softmax": lambda x: x.softmax(-1), "log_softmax": lambda x: x.log_softmax(0),
    "logsumexp": lambda x: torch.cat([x, x]).logsumexp(0), "tril": torch.tril, "triu": torch.triu, "glu": lambda x: F.glu(torch.cat([x, x * 2], -1)),
    "masked_fill": lambda x: x.masked_fill(x > 0, 2.0), "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]), "group_norm": lambda x: F.group_norm(torch.stack([x, x * 2 + 1], -1), 1),
    "hardshrink": F.hardshrink, "softshrink": F.softshrink, "entr": torch.special.entr, "bitwise_left_shift": lambda x: positions(x, 9) << 3,
    "bitwise_right_shift": lambda x: positions(x, 9) >> 1,
    "write": in_place, "batch_norm": lambda x: F.batch_norm(x, x.new_zeros(x.shape[1]), x.new_ones(x.shape[1])),
}
BINARY = {
    "clamp_min": lambda x, y: torch.clamp(x, min=y), "clamp_max": lambda x, y: torch.clamp(x, max=y),
    "bitwise_and": lambda x, y: (x > 0) & (y > 0), "bitwise_or": lambda x, y: (x > 0) | (y > 0),
    "bitwise_xor": lambda x, y: (x > 0) ^ (y > 0), "where": lambda x, y: torch.where(x > 0, x, y), "pow": lambda x, y: x.abs() ** y,
    "threshold_backward": lambda x, y: A.threshold_backward(x, y, 0.5), "hardsigmoid_backward": A.hardsigmoid_backward, "tanh_backward": lambda x, y: A.tanh_backward(x, y),
    "sigmoid_backward": lambda x, y: A.sigmoid_backward(x, y), "silu_backward": lambda x, y: A.silu_backward(x, y),
    "gelu_backward": lambda x, y: A.gelu_backward(x, y), "gelu_tanh_backward": lambda x, y: A.gelu_backward(x, y, approximate="tanh"),
    "addcmul": lambda x, y: torch.addcmul(x, y, x, value=0.5), "addcdiv": lambda x, y: torch.addcdiv(x, y, x, value=0.5),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3), "softmax_backward": lambda x, y: A._softmax_backward_data(x, y.softmax(-1), -1, x.dtype),
    "trunc_divide": lambda x, y: torch.div(x, y, rounding_mode="trunc"), "prelu": torch._prelu_kernel, "xlog1py": torch.special.xlog1py,
    "smooth_l1": lambda x, y: F.smooth_l1_loss(x, y, reduction="none", beta=0.3), "huber": lambda x, y: F.huber_loss(x, y, reduction="none", delta=0.3),
    "log_softmax_backward": lambda x, y: A._log_softmax_backward_data(x, y.log_softmax(-1), -1, x.dtype),
}


def by_name():
    """Rows that are called as torch calls them: `torch.name(tensors)`."""
    return {name: (getattr(torch, row["aten"]), int(row["arity"])) for name, row in ROWS.items()
            if row["kind"] == "pointwise" and row["arity"] in "12" and name == row["aten"] and hasattr(torch, name)}


PROGRAMS = {**by_name(), **{k: (f, 1) for k, f in UNARY.items()}, **{k: (f, 2) for k, f in BINARY.items()}}
NOT_EMPTY = {"amax", "amin", "argmax", "argmin", "index_select", "gather", "embedding", "logsumexp", "group_norm", "batch_norm", "select", "var", "std"}
ZERO_BY_POSITION = {"fmax", "fmin", "softshrink", "maximum", "minimum", "clamp_min", "clamp_max", "amax", "amin"}
EAGER_GIVES_UP = {"fmod", "remainder"}  # where the quotient is very large (test_division.py)
COMPOSED = {"logaddexp", "logaddexp2", "silu_backward", "gelu_backward", "gelu_tanh_backward", "gelu", "gelu_tanh", "mish"}  # of functions, each within 2 ulp


def test_every_row_has_a_program():
    assert set(ROWS) - CALLED - set(PROGRAMS) == set() and set(PROGRAMS) <= set(ROWS)


def shapes(name):
    numbers = random.Random(name)
    found = [(0, 3), (3, 0), (1, 1)] + [(numbers.choice(SIZES), numbers.choice(SIZES)) for _ in range(5)]
    return [s for s in found if min(s) > 0 or name not in NOT_EMPTY]


def compare(name, function, ours, eager, args):
    exact_kind = not eager.is_floating_point() or ROWS[name]["tier"] == "exact"
    if exact_kind:
        return assert_exact(ours, eager, signed_zeros=name not in ZERO_BY_POSITION)
    if ROWS[name]["kind"] == "pointwise" and name not in COMPOSED:
        return assert_ulp(ours, eager, 2)
    exact = function(*[a.double() for a in args]).double()
    return assert_near_fp64(ours, eager, exact, floor_ulp=16)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_row(name):
    function, arity = PROGRAMS[name]
    call, generator = compiled(function, arity), seeded(name)
    for shape in shapes(name):
        special = ROWS[name]["kind"] == "pointwise" and ROWS[name]["tier"] == "exact" and name not in EAGER_GIVES_UP
        args = [values(shape, torch.float32, generator, special) for _ in range(arity)]
        for layout in zip(*[list(layouts(a)) for a in args]):
            tensors = [t for _, t in layout]
            compare(name, function, call(*tensors), function(*tensors), tensors)
    info = call.info()
    assert not info["fallbacks"], info["fallbacks"]
    assert any(version["kernels"] for version in info["versions"]), [version["calls"] for version in info["versions"]]


ALL_SIZES = [(5, 7), (0, 7), (1, 7), (5, 1), (1, 1), (2, 13), (31, 2), (64, 127), (5, 7)]


def counted(name):
    return escapement.stats().get(name, 0)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_row_is_one_program_for_all_sizes(name):
    """Recorded once, no size pinned, and each later call is a hit that runs every kernel of the version."""
    function, arity = PROGRAMS[name]
    call, generator, pinned = compiled(function, arity), seeded(name), counted("specialisations")
    sizes = [shape for shape in ALL_SIZES if min(shape) > 0 or name not in NOT_EMPTY]
    for shape in sizes:
        launches = counted("launches")
        call(*[values(shape, torch.float32, generator, False) for _ in range(arity)])
    launches, info = counted("launches") - launches, call.info()
    assert info["recordings"] == 1 and not info["fallbacks"], (info["recordings"], info["misses"], info["fallbacks"])
    assert counted("specialisations") == pinned
    version = info["versions"][0]
    assert version["hits"] == len(sizes) - 1
    assert launches == sum(kernel["launches"] for kernel in version["kernels"]) > 0, (launches, version["kernels"])
