"""`x.conj()` shares x's memory and says by a bit what its elements are: programs with it are recorded, and whatever shows of it is eager's."""

import pytest
import torch

import escapement

SHAPES = ((5, 6), (7, 8), (3, 4), (4, 12), (1, 3), (2, 1), (0, 4), (6, 5))


def z(x):
    return torch.complex(x, x * 2 + 1)


def spectrum(x):
    return torch.fft.rfft(x, n=2 * x.shape[-1])


RECORDED = {
    "product": lambda x: (torch.fft.fft(x) * torch.fft.fft(x).conj()).real, "autocorrelation": lambda x: torch.fft.irfft(spectrum(x) * spectrum(x).conj(), n=2 * x.shape[-1])[..., :x.shape[-1]],
    "mH": lambda x: (z(x) @ z(x).mH).abs(), "adjoint": lambda x: z(x).adjoint().abs() + 1, "imag": lambda x: z(x).conj().imag + 1, "real": lambda x: z(x).conj().real + 1,
    "twice": lambda x: z(x).conj().conj().imag * 2, "resolved": lambda x: z(x).conj().resolve_conj(), "is_conj": lambda x: x * 2 if z(x).conj().is_conj() else x * 3,
    "is_conj of a product": lambda x: x * 2 if (z(x).conj() * 2).is_conj() else x * 3, "is_neg": lambda x: x * 2 if z(x).conj().imag.is_neg() else x * 3,
    "a part": lambda x: z(x)[:, ::2].conj()[1:].t().abs(), "angle": lambda x: z(x).conj().angle(),
    "cat": lambda x: torch.cat([z(x), z(x).conj()]).abs(), "stack": lambda x: torch.stack([z(x).conj(), z(x)]).sum(0).real, "where": lambda x: torch.where(x > 0, z(x), z(x).conj()).imag,
    "einsum": lambda x: torch.einsum("ij,ij->i", z(x), z(x).conj()).real, "norm": lambda x: torch.linalg.norm(z(x).conj() @ z(x).t()), "clone": lambda x: z(x).conj().clone(),
    "of real numbers": lambda x: x.conj() + 1, "as real": lambda x: torch.view_as_real(z(x).conj().resolve_conj()), "resolved neg": lambda x: z(x).conj().imag.resolve_neg(),
    "written copy": lambda x: z(x).conj().clone().mul_(2j), "compared": lambda x: (z(x).conj() == z(x)).float(),
}
EAGER = {   # that both are one memory shows
    "is it a view": lambda x: x * 2 if z(x).conj()._is_view() else x * 3, "result": lambda x: z(x).conj(), "result by neg": lambda x: z(x).conj().imag, "view as result": lambda x: z(x).conj().t(), "inside of a list": lambda x: [z(x).conj(), x + 1],
    "base written": lambda x: written_behind(z(x)), "written": lambda x: through(z(x), lambda c: c.mul_(2j)), "part written": lambda x: through(z(x), lambda c: c[:1].zero_()),
    "negative written": lambda x: through(z(x), lambda c: c.imag.add_(1)), "twice, written": lambda x: through(z(x), lambda c: c.conj().add_(1)), "assigned": lambda x: through(z(x), lambda c: c.__setitem__(slice(0, 1), 3j)),
}


def written_behind(base):
    conj = base.conj()
    base.mul_(2)
    return conj + 0


def through(base, write):
    write(base.conj())
    return base + 0


def same(found, expected, shape):
    if isinstance(expected, list):
        return [same(*pair, shape) for pair in zip(found, expected, strict=True)]
    torch.testing.assert_close(found, expected, equal_nan=True, msg=lambda text: f"{shape}: {text}")
    assert (found.is_conj(), found.is_neg()) == (expected.is_conj(), expected.is_neg()), shape
    assert found.stride() == expected.stride() or not found.numel(), shape


def run(f, compiled, shapes=SHAPES):
    for shape in (*shapes, *shapes):
        x = torch.arange(1.0, shape[0] * shape[1] + 1).reshape(shape) / 4
        try:
            expected = f(x)
        except RuntimeError:   # a transform of nothing
            with pytest.raises(RuntimeError):
                compiled(x)
            continue
        same(compiled(x), expected, shape)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded(name):
    escapement.reset()
    run(RECORDED[name], escapement.jit(RECORDED[name]))
    stats = escapement.stats()
    assert stats.get("launches", 0) + stats.get("library_calls", 0) >= stats["hits"], stats
    assert not stats.get("unsupported_tensor") and stats["hits"] >= 2 * len(SHAPES) - 4, stats   # of one row, one column and nothing others, at most


@pytest.mark.parametrize("name", EAGER)
def test_what_shows_is_eagers(name):
    escapement.reset()
    run(EAGER[name], escapement.jit(EAGER[name]))


@pytest.mark.parametrize("name", [*RECORDED, *EAGER])
def test_under_torch_compile(name):
    torch._dynamo.reset()
    escapement.reset()
    f = {**RECORDED, **EAGER}[name]
    run(f, torch.compile(f, backend="escapement"), SHAPES[:4])


def test_arguments_that_are_written():
    """The argument is the caller's."""
    def f(x):
        x.conj().mul_(1j)
        return x * 2

    compiled = escapement.jit(f)
    for _ in range(3):
        a = z(torch.arange(6.0).reshape(2, 3))
        b = a.clone()
        same(compiled(a), f(b), (2, 3))
        same(a, b, (2, 3))


def test_lazy_arguments():
    f = lambda x: x * 2 + 1
    compiled = escapement.jit(f)
    for n in (3, 5, 3):
        for x in (z(torch.arange(float(n))), z(torch.arange(float(n))).conj(), z(torch.arange(float(n))).conj().imag):
            same(compiled(x), f(x), n)


def test_gradients():
    def f(x):
        x = x.clone().requires_grad_()
        (torch.fft.fft(x).abs() ** 2 * (torch.fft.fft(x).conj() * x).imag).sum().backward()
        return x.grad

    run(f, escapement.jit(f), SHAPES[:4])
    loss = lambda x: (spectrum(x) * spectrum(x).conj() * (1 + 1j)).imag.pow(2).sum()
    torch._dynamo.reset()
    escapement.reset()
    compiled = torch.compile(loss, backend="escapement")
    for shape in (*SHAPES[:4], *SHAPES[:4]):
        x = (torch.arange(1.0, shape[0] * shape[1] + 1).reshape(shape) / 16).requires_grad_()
        expected, = torch.autograd.grad(loss(x), x)
        found, = torch.autograd.grad(compiled(x), x)
        torch.testing.assert_close(found, expected)   # what is kept for the way back is conjugated by a bit, so the forward graph runs eagerly
