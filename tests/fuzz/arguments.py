"""What programs are called with. An argument is a line of text:

  `float32 [n, 3, m] stepped grid`   a tensor: dtype, sizes (symbols have their value in the call), layout, kind of values
  `= a[1:]`                          what the expression says of arguments before it: the same tensor, an overlapping view
  `number`                           an int, float or bool that stands in the call under the argument's name

Drawn twice from the same call they are equal, alias each other the same way and share nothing with the first drawing.
"""

import math
import re
import zlib

import torch

TENSOR = re.compile(r"(?P<dtype>\w+) \[(?P<sizes>[^\]]*)\] (?P<layout>\w+) (?P<values>\w+)")
SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-40, 65504.0, 3e38]
LAYOUTS = ("contiguous", "transposed", "stepped", "offset", "expanded", "permuted", "channels_last")
VALUES = ("grid", "normal", "special", "index", "positive", "zero")


def integers(shape, dtype, kind, generator):
    low, high = {"index": (0, 3), "zero": (0, 1), "positive": (1, 6)}.get(kind, (0 if dtype == torch.uint8 else -6, 9))
    if kind == "special":
        low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    return torch.randint(low, high, shape, generator=generator, dtype=dtype)


def floats(shape, dtype, kind, generator):
    """`grid`: small multiples of a half, whose sums are exact in any order."""
    if kind == "grid":
        return torch.randint(-9, 10, shape, generator=generator).div(2)
    if kind in ("index", "zero"):
        return torch.randint(0, 3 if kind == "index" else 1, shape, generator=generator).float()
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    if kind == "positive":
        return x.abs() + 0.25
    if kind == "special" and x.numel():
        picks = torch.tensor(SPECIAL, dtype=torch.float64)[torch.randint(0, len(SPECIAL), shape, generator=generator)]
        x = torch.where(torch.rand(shape, generator=generator, dtype=torch.float32) < 0.3, picks, x)   # the same under any default dtype
    return x


def values(shape, dtype, kind, generator):
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator) > (1 if kind == "zero" else 0)
    if dtype.is_complex:
        real, imaginary = (floats(shape, torch.float32, "grid", generator) for _ in range(2))
        return torch.complex(real.float(), imaginary.float()).to(dtype)
    return (floats if dtype.is_floating_point else integers)(shape, dtype, kind, generator).to(dtype)


def laid_out(x, layout):
    if layout == "transposed" and x.dim() >= 2:
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "permuted" and x.dim() >= 3:
        return x.permute(1, 2, 0, *range(3, x.dim())).contiguous().permute(2, 0, 1, *range(3, x.dim()))
    if layout == "stepped" and x.dim():
        wide = x.new_zeros((*x.shape[:-1], 2 * x.shape[-1]))
        return wide[..., ::2].copy_(x)
    if layout == "offset":
        return x.new_zeros(x.numel() + 1)[1:].view(x.shape).copy_(x)
    if layout == "expanded" and x.dim() and x.shape[0]:
        return x[:1].clone().expand(x.shape)
    if layout == "channels_last" and x.dim() == 4:
        return x.contiguous(memory_format=torch.channels_last)
    return x


def tensor(text, name, call, wide=False):
    parts = TENSOR.fullmatch(text)
    sizes = [call[s] if s in call else int(s) for s in parts["sizes"].replace(" ", "").split(",") if s]
    generator = torch.Generator().manual_seed(zlib.crc32(f"{call.get('seed', 0)} {name}".encode()))
    made = values(sizes, getattr(torch, parts["dtype"]), parts["values"], generator)
    return laid_out(made.double() if wide and made.is_floating_point() else made, parts["layout"])


def drawn(arguments, call, wide=False):
    """name -> value. The text of an alias may fail at some sizes; then so does this. `wide`: the same numbers in double precision."""
    made = {}
    for name, text in arguments.items():
        if text.startswith("="):
            made[name] = eval(text[1:], {"torch": torch}, made)
        else:
            made[name] = call[name] if text == "number" else tensor(text, name, call, wide)
    return made


def symbols(arguments):
    """The names of sizes that the arguments use, in order."""
    parts = [TENSOR.fullmatch(text) for text in arguments.values()]
    found = [s.strip() for p in parts if p for s in p["sizes"].split(",")]
    return list(dict.fromkeys(s for s in found if s and not s.isdigit()))
