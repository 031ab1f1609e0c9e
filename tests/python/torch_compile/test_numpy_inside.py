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
