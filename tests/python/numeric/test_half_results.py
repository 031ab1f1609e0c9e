"""Where eager rounds to a half type: before the operator, between its steps or behind it. Beyond a half type's range that is inf or a number."""
import pytest
import torch

import escapement

HALF = {torch.float16: 2e-3, torch.bfloat16: 8e-3}
INPUTS = {
    "beyond f16": torch.tensor([70000., 70001., 3.]), "near in bf16": torch.tensor([2049., 2050.3, 2048.6, 1.]), "cancelling": torch.tensor([1e5, -1e5, 3., 2.]),
    "integers": torch.tensor([70001, 70003, 1]), "doubles": torch.tensor([1e5, -1e5, 3., 2.]).double(), "halves": torch.tensor([3., 4., 5.]).half(),
}
ASKED_FOR = {
    "softmax": lambda x, dtype: x.softmax(-1, dtype=dtype), "log_softmax": lambda x, dtype: x.log_softmax(-1, dtype=dtype),
    "mean": lambda x, dtype: x.mean(dtype=dtype), "sum": lambda x, dtype: x.sum(dtype=dtype),
}


def near(got, expected, rtol):
    assert got.dtype == expected.dtype and got.shape == expected.shape
    torch.testing.assert_close(got.double(), expected.double(), rtol=rtol, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("name", ASKED_FOR)
@pytest.mark.parametrize("values", INPUTS)
def test_a_half_type_is_asked_for(values, name, dtype):
    def function(x):
        return ASKED_FOR[name](x, dtype)

    compiled, x = escapement.jit(function), INPUTS[values]
    for _ in range(3):
        near(compiled(x), function(x), HALF[dtype])
    near(torch.compile(function, backend="escapement")(x), function(x), HALF[dtype])


@pytest.mark.parametrize("x", [torch.zeros(70000).half(), torch.full((600,), -3.).bfloat16(), torch.tensor([-5., -6., -4.] * 100).half(), torch.randn(7, 33).half()])
def test_the_steps_of_logsumexp_round(x):
    for function in (lambda x: x.logsumexp(-1), lambda x: x.logsumexp(0, keepdim=True)):
        compiled = escapement.jit(function)
        for _ in range(3):
            near(compiled(x), function(x), 8e-4 if x.dtype == torch.float16 else 8e-3)


OUT = {
    "pow, wrapping": (lambda x, y: torch.pow(x, 2, out=y), torch.tensor([2**40, 3]), torch.zeros(2)),
    "pow into half": (lambda x, y: torch.pow(x, 2, out=y), torch.tensor([52.45]), torch.zeros(1).half()),
    "pow by a size": (lambda x, y: torch.pow(x, x.shape[0], out=y), torch.tensor([52.45, 3.]), torch.zeros(2).half()),
    "std into half": (lambda x, y: torch.std(x, 0, out=y), torch.tensor([100.1, 100.2, 103.3]), torch.zeros((), dtype=torch.float16)),
    "var into double": (lambda x, y: torch.var(x, 0, out=y), torch.tensor([100.1, 100.2, 103.3]), torch.zeros((), dtype=torch.float64)),
    "logsumexp of half": (lambda x, y: torch.logsumexp(x, 0, out=y), torch.tensor([1.5, 2.25, .3]).half(), torch.zeros(())),
}


@pytest.mark.parametrize("name", OUT)
def test_results_of_another_dtype(name):
    function, x, out = OUT[name]
    compiled = escapement.jit(function)
    for _ in range(3):
        near(compiled(x, out.clone()), function(x, out.clone()), 1e-6)


def test_whole_numbers_beyond_what_a_double_holds():
    for function in (lambda z: z + torch.arange(2**53 + 1, 2**53 + 5), lambda z: z[:3] + torch.arange(2**62 + 1, 2**62 + 3000, 1024)):
        compiled, z = escapement.jit(function), torch.zeros(4, dtype=torch.int64)
        for _ in range(3):
            assert torch.equal(compiled(z), function(z))
