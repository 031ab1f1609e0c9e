"""Reductions and row-wise composites through the recorder and LLVM: exact where the tier says so, else no worse against fp64 than
eager by more than half, and one kernel with their neighbours."""

import pytest
import torch
import torch.nn.functional as F
from harness import ErrorCount, all_in_kernels, assert_exact, assert_near_fp64, compiled, layouts, seeded, values

SHAPES = [(3, 4, 5), (1, 1, 1), (2, 1, 7), (1, 300, 2), (5, 3, 33), (2, 2, 4099), (2, 9000, 3)]
EMPTY = [(0, 4, 5), (3, 4, 0)]
AXES = [None, 0, 1, 2, (0, 1), (1, 2), (0, 2), (0, 1, 2)]


def exact_of(function, args):
    return function(*[a.double() if a.is_floating_point() else a for a in args]).double()


def sweep(function, shapes, dtype, check, special=False):
    call = compiled(function, 1)
    generator = seeded(str(dtype))
    for shape in shapes:
        x = values(shape, dtype, generator, special)
        for _, laid in layouts(x):
            check(call(laid), function(laid), laid)
    all_in_kernels(call)


def sweep_near(function, dtype, make=lambda x: x):
    """Long sums: the error over at least 60 outputs of every shape. fp64 has no exact twin: a few units of its own rounding."""
    call, generator = compiled(function, 1), seeded(str(dtype))
    for shape in SHAPES:
        errors, draws = ErrorCount(), 0
        while errors.count < 60 and draws < 60:
            draws += 1
            x = make(values(shape, dtype, generator, False))
            for _, laid in layouts(x):
                ours, eager = call(laid), function(laid)
                if dtype == torch.float64:
                    assert_near_fp64(ours, eager, eager, floor_ulp=64)
                else:
                    errors.add(ours, eager, exact_of(function, [laid]))
            if dtype == torch.float64:
                break
        if errors.count:
            errors.check()
    all_in_kernels(call)


def exact(ours, eager, _):
    assert_exact(ours, eager, signed_zeros=False)  # which zero is the extreme depends on eager's vector width


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("keepdim", [False, True])
def test_sum_and_mean(axes, keepdim):
    for reduce in (torch.sum, torch.mean):
        def function(x, reduce=reduce):
            return reduce(x) if axes is None else reduce(x, axes, keepdim=keepdim)

        sweep_near(function, torch.float32)
    sweep(lambda x: torch.sum(x, axes, keepdim=keepdim) if axes is not None else x.sum(), SHAPES + EMPTY, torch.int64, exact)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32], ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_extremes(dtype, axis):
    special = dtype.is_floating_point
    for function in (lambda x: torch.amax(x, axis), lambda x: torch.amin(x, axis, keepdim=True),
                     lambda x: torch.argmax(x, axis), lambda x: torch.argmin(x, axis, keepdim=True)):
        sweep(function, SHAPES, dtype, exact, special)


@pytest.mark.parametrize("name", ["any", "all", "any_dim", "all_dim", "prod_int", "argmax_all"])
def test_exact_others(name):
    function, dtype = {
        "any": (lambda x: torch.any(x), torch.bool), "all": (lambda x: torch.all(x), torch.bool),
        "any_dim": (lambda x: torch.any(x, 1), torch.bool), "all_dim": (lambda x: torch.all(x, -1, keepdim=True), torch.int32),
        "prod_int": (lambda x: torch.prod(x, 2), torch.int64), "argmax_all": (lambda x: torch.argmax(x), torch.float32),
    }[name]
    sweep(function, SHAPES, dtype, exact)


ROWS = {
    "softmax": lambda x: torch.softmax(x, -1), "softmax_mid": lambda x: torch.softmax(x, 1), "softmax_first": lambda x: x.softmax(0),
    "log_softmax": lambda x: torch.log_softmax(x, -1), "logsumexp": lambda x: torch.logsumexp(x, -1),
    "var": lambda x: torch.var(x, -1), "var_axes": lambda x: torch.var(x, (0, 2), correction=0), "std": lambda x: torch.std(x, 1),
    "norm2": lambda x: torch.linalg.vector_norm(x, dim=-1), "norm1": lambda x: torch.linalg.vector_norm(x, 1, dim=1),
    "norm_inf": lambda x: torch.linalg.vector_norm(x, float("inf"), dim=-1), "norm3": lambda x: torch.linalg.vector_norm(x, 3, dim=-1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]), "layer_norm2": lambda x: F.layer_norm(x, x.shape[-2:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]), "prod": lambda x: torch.prod(x * 0.1 + 1, -1),
    "masked_mean": lambda x: (x * (x > 0)).sum(-1) / (x > 0).sum(-1).clamp(min=1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_rows(name, dtype):
    function = ROWS[name]
    sweep_near(function, dtype)


def test_layer_norm_with_neighbours_is_one_kernel():
    def function(x, residual, weight, bias):
        return torch.relu(F.layer_norm(x + residual, (x.shape[-1],), weight, bias)) * 2 + residual

    call = compiled(function, 4)
    generator = seeded("layer_norm")
    for rows, width in [(3, 48), (1, 1), (7, 31), (2, 1000), (64, 48)]:
        args = [values(s, torch.float32, generator, False) for s in ((rows, width), (rows, width), (width,), (width,))]
        assert_near_fp64(call(*args), function(*args), exact_of(function, args))
    all_in_kernels(call)
    versions = call.info()["versions"]
    assert len(versions) == 1 and sum(k["launches"] for k in versions[0]["kernels"]) == 1, versions


def test_softmax_with_mask_and_scale_is_one_kernel():
    def function(x, mask):
        return torch.softmax(x * 0.125 + mask, -1)

    call = compiled(function, 2)
    generator = seeded("softmax")
    for b, n in [(3, 48), (1, 1), (7, 31), (2, 1000)]:
        x, mask = values((b, 4, n, n), torch.float32, generator, False), values((b, 1, 1, n), torch.float32, generator, False)
        assert_near_fp64(call(x, mask), function(x, mask), exact_of(function, [x, mask]))
    versions = call.info()["versions"]
    assert sum(k["launches"] for k in versions[0]["kernels"]) == 1, versions


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_group_norm(groups):
    def function(x, weight, bias):
        return F.silu(F.group_norm(x, groups, weight, bias))

    call = compiled(function, 3)
    generator = seeded(groups)
    for n, hw in [(2, (5, 7)), (1, (1, 1)), (3, (8, 8))]:
        args = [values((n, 8, *hw), torch.float32, generator, False), *(values((8,), torch.float32, generator, False) for _ in "wb")]
        assert_near_fp64(call(*args), function(*args), exact_of(function, args))
    all_in_kernels(call)


def test_batch_norm_inference():
    def function(x, mean, var, weight, bias):
        return torch.relu(F.batch_norm(x, mean, var.abs() + 0.1, weight, bias))

    call = compiled(function, 5)
    generator = seeded("bn")
    for n, hw in [(2, (5, 7)), (1, (1, 1)), (3, (8, 8))]:
        args = [values((n, 6, *hw), torch.float32, generator, False), *(values((6,), torch.float32, generator, False) for _ in range(4))]
        assert_near_fp64(call(*args), function(*args), exact_of(function, args))
    all_in_kernels(call)


def test_bits_do_not_depend_on_threads_or_split():
    def function(x):
        return torch.softmax(x, -1), x.sum(), x.sum(0), x.mean(-1)

    from harness import region

    made = region(lambda x: list(function(x)), 1)
    generator = seeded("threads")
    threads = torch.get_num_threads()
    try:
        for shape in [(1, 500_000), (700, 1003), (3, 1_000_003)]:
            x = values(shape, torch.float32, generator, False)
            torch.set_num_threads(1)
            made(x)
            one = [t.clone() for t in made(x)]
            torch.set_num_threads(2)
            two = made(x)
            whole_rows = [made(row.unsqueeze(0).contiguous())[3] for row in x[:5]]
            for a, b in zip(one, two):
                assert_exact(b, a)
            assert_exact(torch.cat(whole_rows), one[3][:5])
    finally:
        torch.set_num_threads(threads)


ALIKE = {
    "columns": lambda x: x.std(0), "rows": lambda x: x.std(-1), "two axes": lambda x: x.var((0, 1)), "with the mean": lambda x: torch.var_mean(x, 0)[0],
    "permuted": lambda x: x.permute(2, 0, 1).var((0, 2)),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ALIKE)
def test_equal_numbers_do_not_vary(name, dtype):
    """Exactly: programs ask for columns whose deviation is 0."""
    call = compiled(ALIKE[name], 1)
    for n in (2, 3, 5, 6, 7, 10, 11, 49, 100, 333, 1000):
        for number in (0.1, 1 / 3, 7.7, 1e10 / 3, 3e38):
            x = torch.full((n, 5, n), number, dtype=dtype)
            ours, eager = call(x), ALIKE[name](x)
            assert not ours.any() or number == 3e38 and not torch.isfinite(ours).any() or eager.any(), (n, number, ours.flatten()[0])
