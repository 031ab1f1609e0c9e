"""Operators of ATen that are recorded through their parts, or whose result sizes have a rule: eager's values, dtypes, strides and sharing for all
sizes and layouts, one recording, and no size that only the result tells."""

import pytest
import torch
import torch.nn.functional as F

import escapement

einsum = torch.einsum
PROGRAMS = {
    "rows by rows": lambda x, y, i: einsum("ij,kj->ik", x, y), "dot": lambda x, y, i: einsum("ij,ij->", x, y), "dots": lambda x, y, i: einsum("ij,ij->i", x, y),
    "outer": lambda x, y, i: einsum("i,j->ij", x[:, 0], y[0]), "batches": lambda x, y, i: einsum("bij,bkj->bik", x[None], y[None]),
    "ellipsis": lambda x, y, i: einsum("...ij,...kj->...ik", x, y), "transposed": lambda x, y, i: einsum("ij->ji", x), "summed": lambda x, y, i: einsum("ij->j", x),
    "three": lambda x, y, i: einsum("ij,kj,kl->il", x, y, y), "in other order": lambda x, y, i: einsum("ij,kj->ki", x, y), "implicit": lambda x, y, i: einsum("ij,kj", x, y),
    "diagonal": lambda x, y, i: einsum("ii->i", x @ x.mT), "trace": lambda x, y, i: einsum("ii", x @ x.mT), "heads": lambda x, y, i: einsum("bihd,bjhd->bhij", *(t[None, :, None] for t in (x, y))),
    "einsum and more": lambda x, y, i: (einsum("ij,kj->ik", x, y) + 1).softmax(-1) * 2, "by sublists": lambda x, y, i: einsum(x, [0, 1], y, [2, 1], [0, 2]),
    "itself": lambda x, y, i: einsum("ij->ij", x), "rows that are multiplied": lambda x, y, i: einsum("ij,i->ij", x, i.to(x.dtype)),
    "inner": lambda x, y, i: torch.inner(x, y), "fftshift": lambda x, y, i: torch.fft.fftshift(x), "ifftshift": lambda x, y, i: torch.fft.ifftshift(x, 0),
    "nansum": lambda x, y, i: torch.where(x > 1, torch.nan, x).nansum(-1), "nansum of all": lambda x, y, i: torch.where(x > 1, torch.nan, x).nansum(),
    "nanmean": lambda x, y, i: torch.where(x > 1, torch.nan, x).nanmean(0), "nansum in f64": lambda x, y, i: x.nansum(0, keepdim=True, dtype=torch.float64),
    "quantile": lambda x, y, i: x.quantile(0.3, -1), "quantiles": lambda x, y, i: x.quantile(torch.tensor([0.1, 0.9]), 0), "quantile of all": lambda x, y, i: x.quantile(0.5),
    "hstack": lambda x, y, i: torch.hstack([x, x * 2]), "hstack of vectors": lambda x, y, i: torch.hstack([x[:, 0], y[:, 0]]), "column_stack": lambda x, y, i: torch.column_stack([x[:, 0], x]),
    "repeat_interleave": lambda x, y, i: x.repeat_interleave(2, 0), "repeat_interleave of columns": lambda x, y, i: x.repeat_interleave(3, -1) + 1,
    "repeat_interleave of all": lambda x, y, i: x.repeat_interleave(2), "repeat_interleave by 1": lambda x, y, i: x.repeat_interleave(1, 0),
    "cartesian_prod": lambda x, y, i: torch.cartesian_prod(x[:, 0], y[:, 0]), "tensordot": lambda x, y, i: torch.tensordot(x, y, dims=([1], [1])),
    "tensordot of none": lambda x, y, i: torch.tensordot(x[:, 0], y[0], dims=0), "take_along_dim": lambda x, y, i: torch.take_along_dim(x, (i % x.shape[0])[:, None], 0),
    "take_along": lambda x, y, i: torch.take_along_dim(x, x.argsort(1), 1), "trapezoid": lambda x, y, i: torch.trapezoid(x), "trapezoid by x": lambda x, y, i: torch.trapezoid(x, x.abs().cumsum(-1), dim=-1),
    "cov": lambda x, y, i: x.cov() + 1, "corrcoef": lambda x, y, i: x.corrcoef(), "eye": lambda x, y, i: torch.eye(x.shape[0]) + 1, "wide eye": lambda x, y, i: torch.eye(x.shape[0], x.shape[1]) * x,
    "one_hot": lambda x, y, i: F.one_hot(i, 9).float() * 2, "one_hot of a matrix": lambda x, y, i: F.one_hot(i[:, None].expand(-1, x.shape[1]), 9),
    "diag_embed": lambda x, y, i: torch.diag_embed(x) + 1, "bucketize": lambda x, y, i: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])) * 2,
    "searchsorted": lambda x, y, i: torch.searchsorted(torch.tensor([-1.0, 0.0, 1.0]), x) * 2, "isin": lambda x, y, i: torch.isin(i[:, None] + x.long(), torch.tensor([1, 2])),
    "take_along of one column": lambda x, y, i: torch.take_along_dim(x, x[:, :1].long() % x.shape[0], 0) + 1, "take_along of all": lambda x, y, i: torch.take_along_dim(x, x.argsort(1)),
    "cdist": lambda x, y, i: torch.cdist(x, y) + 1, "cdist of batches": lambda x, y, i: torch.cdist(x[None], torch.stack([y, x]), p=1), "cdist to one": lambda x, y, i: torch.cdist(x, y[:1]),
    "pixel_shuffle": lambda x, y, i: F.pixel_shuffle(x[None, None].expand(2, 8, *x.shape), 2) * 2, "pixel_shuffle of one": lambda x, y, i: F.pixel_shuffle(torch.stack([x] * 9), 3),
    "pixel_shuffle channels last": lambda x, y, i: F.pixel_shuffle(torch.stack([x] * 8)[None].contiguous(memory_format=torch.channels_last), 2),
    "grid_sample": lambda x, y, i: F.grid_sample(x[None, None].expand(2, 3, *x.shape), torch.stack([y, x], -1)[None].tanh().expand(2, *x.shape, 2), align_corners=False) + 1,
    "unfold": lambda x, y, i: F.unfold(x[None, None].expand(2, 3, *x.shape), (2, 3), padding=1) * 2, "unfold by steps": lambda x, y, i: F.unfold(x[None, None], 2, dilation=2, padding=3, stride=2),
    "unfold of one": lambda x, y, i: F.unfold(x[None], 1), "renorm": lambda x, y, i: x.renorm(2, 0, 1.0) + 1, "samples": lambda x, y, i: torch.multinomial(x.softmax(-1) * 0 + 1, x.shape[1]).shape,
}
LAYOUTS = {"plain": lambda t: t, "transposed": lambda t: t.mT.contiguous().mT, "stepped": lambda t: torch.stack([t, t], -1).flatten(1)[:, ::2]}
SIZES = ((4, 6), (7, 3), (1, 5), (3, 1), (1, 1), (13, 8), (2, 2), (5, 17), (0, 3), (3, 0))
# Kept whole: their parts read sizes as numbers; or their layouts have no rule. Of quantiles, whether a row has a number that is none is asked.
ASKED = ("inner", "tensordot", "tensordot of none", "repeat_interleave", "repeat_interleave of columns", "repeat_interleave of all", "repeat_interleave by 1", "cov", "corrcoef", "take_along of all", "pixel_shuffle channels last", "unfold of one", "quantile", "quantiles", "quantile of all")


def arguments(sizes, layout, seed):
    made = torch.Generator().manual_seed(seed)
    x, y = (LAYOUTS[layout](torch.randn(*sizes, generator=made)) for _ in range(2))
    return x, y, torch.randint(0, 9, sizes[:1], generator=made)


def outcome(function, args):
    try:
        return function(*args)
    except (RuntimeError, IndexError) as error:
        return type(error)


def is_layout(ours, eager):
    return not eager.numel() or all(n == 1 or a == b for n, a, b in zip(eager.shape, ours.stride(), eager.stride()))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name, layout):
    for first in ((4, 6), (1, 5), (0, 3)):
        function = escapement.jit(PROGRAMS[name])
        for seed, sizes in enumerate((first, *SIZES)):
            args = arguments(sizes, layout, seed)
            ours, eager = outcome(function, args), outcome(PROGRAMS[name], args)
            if isinstance(eager, type):
                assert ours is eager
                continue
            if isinstance(eager, torch.Size):
                assert ours == eager
                continue
            torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-5, equal_nan=True)
            assert is_layout(ours, eager), (sizes, ours.stride(), eager.stride())
            assert [ours.data_ptr() == a.data_ptr() for a in args] == [eager.data_ptr() == a.data_ptr() for a in args] or not eager.numel()


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_recording(name):
    function = escapement.jit(PROGRAMS[name])
    for seed, sizes in enumerate(((4, 6), (7, 3), (13, 8), (5, 17), (2, 9))):
        function(*arguments(sizes, "plain", seed))
    info = function.info()
    assert info["recordings"] == 1 and not info["eager"], (info["recordings"], info["eager"])
    symbols = [s["symbol"] for s in info["regions"][0]["versions"][0]["symbols"]]
    assert name in ASKED or not [s for s in symbols if s.startswith("u")], symbols
