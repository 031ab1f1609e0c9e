"""Functions that Dynamo says in other words: with numbers they are the operators themselves, with eager's results to the last bit in every dtype, and eager's errors; one
compile serves all numbers."""

import pytest
import torch

import escapement

pytestmark = pytest.mark.usefixtures("fresh")

PROGRAMS = {
    "addcdiv": lambda a, b, c, v: torch.addcdiv(a, b, c, value=v), "addcdiv_": lambda a, b, c, v: a.addcdiv_(b, c, value=v), "addcmul": lambda a, b, c, v: torch.addcmul(a, b, c, value=v),
    "addcmul_": lambda a, b, c, v: a.addcmul_(b, c, value=v), "_foreach_lerp_": lambda a, b, c, v: (torch._foreach_lerp_([a], [b], v), a)[1],
}
DTYPES = torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int8


def tensors(dtype, size):
    generator = torch.Generator().manual_seed(size)
    if dtype.is_floating_point:
        return [torch.randn(size, generator=generator).to(dtype) for _ in range(3)]
    return [torch.randint(1, 10, (size,), generator=generator).to(dtype) for _ in range(3)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers(name, dtype):
    program = PROGRAMS[name]
    compiled = torch.compile(program, backend="escapement")
    for size, number in ((50, 0.3), (37, 0.7), (50, 1.5), (1, 2.25), (0, 0.3)):
        found = []
        for run in (program, compiled):
            try:
                found.append(run(*tensors(dtype, size), number))
            except RuntimeError as error:
                found.append(type(error))
        eager, ours = found
        assert ours is eager if isinstance(eager, type) else ours.dtype == eager.dtype and torch.equal(ours, eager), (size, number)
    assert escapement.stats()["dynamo"]["compiles"] <= 1


@pytest.mark.parametrize("name", ["addcdiv", "addcmul"])
def test_numbers_that_vary_with_gradients(name):
    """Their formulas take the number for a constant: words it is, and one compile."""
    program = PROGRAMS[name]
    compiled = torch.compile(program, backend="escapement")
    for number in (0.3, 0.7, 1.5, 2.25):
        found = []
        for run in (program, compiled):
            inputs = [tensor.requires_grad_() for tensor in tensors(torch.float64, 9)]
            found.append((run(*inputs, number), *torch.autograd.grad(run(*inputs, number).sum(), inputs)))
        torch.testing.assert_close(*found)
    assert escapement.stats()["dynamo"]["compiles"] == 1


@pytest.mark.parametrize("value", [torch.tensor(2), torch.tensor(2.5), torch.tensor(True), torch.tensor(3, dtype=torch.int32), torch.tensor(2.5, dtype=torch.float64), torch.tensor(1 + 2j)],
                         ids=str)
def test_full_of_a_tensor(value):
    """It is one of a number of that kind."""
    def program(x, value):
        return torch.full((x.shape[0],), value), torch.full((2,), value, dtype=torch.complex128), x + 1

    compiled = torch.compile(program, backend="escapement")
    for size in (3, 5, 1, 0):
        eager, ours = program(torch.ones(size), value), compiled(torch.ones(size), value)
        assert [y.dtype for y in ours] == [y.dtype for y in eager] and all(map(torch.equal, ours, eager))
    assert escapement.stats()["launches"] > 0 and escapement.stats()["dynamo"]["compiles"] <= 2


def test_full_of_what_wants_a_gradient():
    def program(x, value):
        return torch.full((2,), value) + x

    compiled = torch.compile(program, backend="escapement")
    for run in (program, compiled):
        with pytest.raises(TypeError, match="must be Number, not Tensor"):
            run(torch.ones(2), torch.tensor(2.0, requires_grad=True))
    assert torch.equal(compiled(torch.ones(2), torch.tensor(2.0)), torch.full((2,), 3.0))
