"""What the tests of the compiled core share: a function recorded without Dynamo, comparisons by tier, odd layouts.

`compiled(f, n)` is f behind a Region of n tensor arguments. A comparison looks at values, dtype, sizes, strides and aliasing, since
all of them are eager's by promise. Nothing here measures time.
"""

import math
import zlib

import torch

import escapement


def core():
    return escapement._C


def region(function, arity, name="test", **options):
    """function(*tensors) -> list of outputs, recorded and compiled; every size unknown, so every dim is a symbol."""
    return core().Region(function, [("tensor", [])] * arity, options, name)


def compiled(function, arity, **options):
    made = region(lambda *args: [function(*args)], arity, **options)

    def call(*args):
        return made(*args)[0]

    call.info = made.info
    return call


def seeded(*parts):
    """A generator that is the same in every process (Python's own hash is not)."""
    generator = torch.Generator()
    generator.manual_seed(zlib.crc32(repr(parts).encode()))
    return generator


def all_in_kernels(call):
    """The compiled form did the work: at least one kernel, and no operator left to ATen."""
    versions = call.info()["versions"]
    assert versions and all(v["kernels"] and not v["calls"] for v in versions), call.info()


def bits(tensor):
    """The bit pattern, with every NaN made one NaN: which NaN is not part of the promise."""
    if not tensor.is_floating_point():
        return tensor
    tensor = torch.where(torch.isnan(tensor), torch.full_like(tensor, math.nan), tensor)
    return tensor.contiguous().view({8: torch.int64, 4: torch.int32, 2: torch.int16}[tensor.element_size()])


def assert_same_form(ours, eager):
    assert ours.dtype == eager.dtype, (ours.dtype, eager.dtype)
    assert ours.shape == eager.shape, (ours.shape, eager.shape)
    if eager.numel():  # strides that address nothing, of axes of size 1 and of tensors without elements, are not compared
        for size, mine, theirs in zip(eager.shape, ours.stride(), eager.stride()):
            assert size == 1 or mine == theirs, (ours.shape, ours.stride(), eager.stride())


def assert_exact(ours, eager, signed_zeros=True):
    assert_same_form(ours, eager)
    if not signed_zeros:
        ours, eager = ours + 0, eager + 0
    if torch.equal(bits(ours), bits(eager)):
        return
    wrong = (bits(ours) != bits(eager)).nonzero()
    at = tuple(wrong[0].tolist())
    raise AssertionError(f"{len(wrong)} of {eager.numel()} elements differ, first at {at}: {ours[at]!r} against {eager[at]!r}")


def ulp_distance(ours, eager):
    """Steps between two floating-point tensors of one dtype, as a float64 tensor; NaN against NaN is 0."""
    width = {torch.float64: torch.int64, torch.float32: torch.int32}.get(ours.dtype, torch.int16)
    low = torch.iinfo(width).min

    def ordered(t):
        pattern = t.contiguous().view(width)
        return torch.where(pattern < 0, (low - pattern), pattern).to(torch.int64)

    distance = (ordered(ours) - ordered(eager)).abs().to(torch.float64)  # may wrap for signs apart: then it is large too
    both_nan = torch.isnan(ours) & torch.isnan(eager)
    return torch.where(both_nan, torch.zeros_like(distance), distance)


def assert_ulp(ours, eager, bound):
    assert_same_form(ours, eager)
    if ours.numel() == 0:
        return
    distance = ulp_distance(ours, eager)
    worst = int(distance.argmax())
    assert distance.max() <= bound, (
        f"{distance.max().item()} ulp at {worst}: {ours.flatten()[worst].item()!r} against {eager.flatten()[worst].item()!r}")


def assert_near_fp64(ours, eager, exact, factor=1.5, floor_ulp=1.0):
    """No larger error against fp64 than eager's by `factor`, but at least the rounding of the result itself."""
    assert_same_form(ours, eager)
    if ours.numel() == 0 or not ours.is_floating_point():
        assert torch.equal(ours, eager)
        return
    finite = torch.isfinite(exact) & torch.isfinite(eager)
    assert torch.equal(torch.isnan(ours), torch.isnan(eager))
    assert torch.equal(ours[torch.isinf(eager)], eager[torch.isinf(eager)])
    if not finite.any():
        return
    ours_error = (ours.double() - exact)[finite].abs().max()
    eager_error = (eager.double() - exact)[finite].abs().max()
    scale = exact[finite].abs().max() * torch.finfo(ours.dtype).eps
    assert ours_error <= factor * eager_error + floor_ulp * scale, (ours_error.item(), eager_error.item(), scale.item())


class ErrorCount:
    """Errors against fp64 over many outputs, ours and eager's, in units of the result's own rounding. One output says little:
    eager may have been lucky."""

    def __init__(self):
        self.ours = self.eager = self.count = self.unit = 0.0

    def add(self, ours, eager, exact):
        assert_same_form(ours, eager)
        assert torch.equal(torch.isfinite(ours), torch.isfinite(eager))
        keep = torch.isfinite(exact) & torch.isfinite(eager)
        if not keep.any():
            return
        self.unit = max(self.unit, (exact[keep].abs().max() * torch.finfo(ours.dtype).eps).item())
        mine, theirs = (((t.double() - exact)[keep]) ** 2 for t in (ours, eager))
        self.ours += mine.sum().item()
        self.eager += theirs.sum().item()
        self.count += keep.sum().item()

    def check(self, factor=1.5, floor_ulp=0.5):
        ours, eager = math.sqrt(self.ours / self.count), math.sqrt(self.eager / self.count)
        assert ours <= factor * eager + floor_ulp * self.unit, (ours, eager, self.unit, self.count)


def values(shape, dtype, generator, special=True):
    """Ordinary values with some special ones strewn in."""
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if not dtype.is_floating_point:
        low = 0 if dtype == torch.uint8 else -100
        return torch.randint(low, 100, shape, generator=generator, dtype=dtype)
    x = torch.randn(shape, generator=generator, dtype=torch.float32) * 3
    if special and x.numel():
        picks = torch.tensor([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-40, 65504.0, 3e38])
        where = torch.rand(shape, generator=generator) < 0.1
        x = torch.where(where, picks[torch.randint(0, len(picks), shape, generator=generator)], x)
    return x.to(dtype)


def layouts(tensor):
    """The same values in other memory: transposed, every second element of a wider buffer, one element off."""
    yield "contiguous", tensor
    if tensor.dim() >= 2:
        yield "transposed", tensor.transpose(0, -1).contiguous().transpose(0, -1)
    if tensor.dim() >= 1:
        wide = torch.zeros(tuple(tensor.shape[:-1]) + (2 * tensor.shape[-1],), dtype=tensor.dtype)
        stepped = wide[..., ::2]
        stepped.copy_(tensor)
        yield "stepped", stepped
        flat = torch.zeros(tensor.numel() + 1, dtype=tensor.dtype)[1:].view(tensor.shape)
        flat.copy_(tensor)
        yield "offset", flat


SHAPES = [(5, 7), (0, 3), (3, 0), (1, 1), (1, 13), (13, 1), (2, 31), (17, 64), (31, 127)]
