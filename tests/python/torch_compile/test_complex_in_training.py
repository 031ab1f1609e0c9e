"""Gradients of complex numbers: the backward reads conjugates of what the forward had, which a recording hands over as numbers, not as a bit of a view."""

import pytest
import torch

import escapement

FUNCTIONS = {
    "product": lambda z, w: (z * w).real.sum(),
    "matrix product": lambda z, w: (z @ w.mT).abs().sum(),
    "filter": lambda z, w: torch.fft.irfft(torch.fft.rfft(z.real) * w[:, : z.shape[1] // 2 + 1], n=z.shape[-1]).square().sum(),
    "conjugate": lambda z, w: (z.conj() * w).imag.sum() + (z * z.conj()).real.sum(),
    "division": lambda z, w: (z / (w * w.conj() + 1)).abs().sum(),
    "turned": lambda z, w: (z.mT.conj() @ w).abs().sum(),
}
REFUSED = ("turned",)   # counted: docs/leftovers.md


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name):
    function = FUNCTIONS[name]
    torch._dynamo.reset()
    escapement.reset()
    compiled = torch.compile(function, backend="escapement")
    for n, m in ((3, 4), (2, 6), (5, 5), (3, 4), (4, 9)):
        generator = torch.Generator().manual_seed(10 * n + m)
        theirs = [torch.randn(n, m, dtype=torch.cfloat, generator=generator).requires_grad_() for _ in range(2)]
        ours = [x.detach().clone().requires_grad_() for x in theirs]
        wanted, found = function(*theirs), compiled(*ours)
        wanted.backward()
        found.backward()
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        for mine, other in zip(ours, theirs):
            torch.testing.assert_close(mine.grad, other.grad, rtol=1e-4, atol=1e-4)
    if name not in REFUSED:
        assert "eager_calls" not in escapement.stats(), escapement.stats()
