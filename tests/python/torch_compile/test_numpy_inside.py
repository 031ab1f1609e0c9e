"""NumPy inside of a compiled function, which Dynamo makes torch's NumPy of: eager's values (stock's dtypes, where torch's NumPy has others than NumPy), one
compile for all sizes, no call eagerly. (torch's NumPy sets another default dtype for a moment, which was taken for the program's doing.)"""
import numpy as np
import pytest
import torch

import escapement

PROGRAMS = {
    "a number": lambda x: x * np.float32(2), "an index": lambda x: x[:, np.array([0, 2])], "a list": lambda x: x * np.array([1.5, 2.0, 3.0, 4.0]).astype(np.float32),
    "clip": lambda x: torch.from_numpy(np.clip(x.numpy(), -1, 1)), "root": lambda x: x * float(np.sqrt(4)), "mean": lambda x: np.abs(x.numpy()).mean(),
    "sum": lambda x: torch.as_tensor(np.sum(x.numpy() * 2, axis=0)), "complex": lambda x: np.array([1j, 2]) * 2, "pi": lambda x: np.pi * x.numpy(),
    "numbers in a list": lambda x: np.array([np.float32(1), np.float32(2)]) + x.numpy()[:, :2], "nothing": lambda x: np.array([]), "whole numbers": lambda x: np.array([1, 2, 3]),
    "choice": lambda x: np.where(x.numpy() > 0, x.numpy(), 0.5), "range": lambda x: np.arange(x.shape[0]) * 0.5, "large": lambda x: np.array(1e12),
    "stacked": lambda x: np.stack([x.numpy(), x.numpy() * 2]), "product": lambda x: x.numpy() @ x.numpy().T, "sorted": lambda x: np.sort(x.numpy(), axis=1),
    "einsum": lambda x: np.einsum("ij,ij->i", x.numpy(), x.numpy()), "counted": lambda x: (x.numpy() > 0).sum(), "widened": lambda x: x.numpy().astype(np.float64),
    "nested": lambda x: np.array([[1.0, 2], [3, 4]]) + x.numpy()[:2, :2], "truths": lambda x: np.array([True, False]) & (x.numpy()[:2, 0] > 0),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_one_compile(program):
    function, results = PROGRAMS[program], {}
    for backend in ("eager", "escapement"):
        torch.compiler.reset()
        compiled = torch.compile(function, backend=backend, dynamic=True if backend == "eager" else None)
        results[backend] = [np.asarray(compiled(torch.linspace(-2, 2, 4 * rows).reshape(rows, 4))) for rows in (3, 4, 5, 7)]
    for ours, stocks in zip(results["escapement"], results["eager"]):
        assert ours.dtype == stocks.dtype
        np.testing.assert_allclose(ours, stocks, rtol=1e-5, atol=1e-6)
    stats = escapement.stats()
    assert stats["dynamo"]["compiles"] == 1 and stats["hits"] == 3 and not stats.get("eager_calls"), stats


DRAWS = {
    "normal": lambda x: x * float(np.random.randn(2).sum()), "an array": lambda x: x + torch.as_tensor(np.random.randn(x.shape[0], 1)), "uniform": lambda x: x * float(np.random.uniform(0, 1, (3,))[0]),
    "integers": lambda x: x * int(np.random.randint(0, 9, 3).sum()), "seeded": lambda x: (np.random.seed(4), x * float(np.random.rand(2)[1]))[1], "a number": lambda x: x * np.random.rand(),
}


@pytest.mark.parametrize("draw", DRAWS)
def test_draws_are_numpys(draw):
    """Not torch's, which Dynamo makes of those of arrays: the numbers follow from NumPy's seed, and move its state only."""
    torch.compiler.reset()
    function, compiled = DRAWS[draw], torch.compile(DRAWS[draw], backend="escapement")
    for rows in (3, 4, 1):
        found = []
        for run in (function, compiled):
            np.random.seed(rows)
            state = torch.get_rng_state()
            found.append((run(torch.ones(rows, 2)), np.random.random()))
            assert torch.equal(torch.get_rng_state(), state)
        assert torch.equal(found[0][0], found[1][0]) and found[0][1] == found[1][1]
    assert escapement.stats()["launches"] > 0


MIXED = {
    "wider": lambda x, a: x * a, "in front": lambda x, a: a + x, "in front, divided": lambda x, a: a / x, "in order": lambda x, a: x < a, "one element": lambda x, a: x - a[:1],
    "alike": lambda x, a: x * a.astype(np.float32), "a number": lambda x, a: x * a.max(),
}


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.float32])
@pytest.mark.parametrize("program", MIXED)
def test_arrays_beside_tensors(program, dtype):
    """Python decides which of both computes, and whether that can be done at all."""
    torch.compiler.reset()
    function, found = MIXED[program], []
    for run in (function, torch.compile(function, backend="escapement")):
        try:
            found.append(run(torch.ones(3), np.arange(1, 4, dtype=dtype)))
        except TypeError as error:
            found.append(str(error))
    eager, ours = found
    assert ours == eager if isinstance(eager, str) else ours.dtype == eager.dtype and torch.equal(ours, eager)
