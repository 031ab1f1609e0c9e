"""Writes to tensors without dims, of each dtype, in each way a program keeps one: what is written under torch.compile is what eager writes."""

import pytest
import torch
from torch import nn

import escapement

pytestmark = pytest.mark.usefixtures("fresh")


def indexed(t, v):
    t[...] = t + v


def in_part(t, v):
    t.view(1)[0] += v


WRITES = {
    "add_": lambda t, v: t.add_(v), "operator": lambda t, v: t.__iadd__(v), "alpha": lambda t, v: t.add_(v, alpha=2), "mul_": lambda t, v: t.add_(1).mul_(v),
    "copy_": lambda t, v: t.copy_(v), "fill_": lambda t, v: t.fill_(3), "zero_": lambda t, v: t.zero_(), "lerp_": lambda t, v: t.lerp_(v.to(t.dtype), 0.25),
    "clamp_": lambda t, v: t.add_(v).clamp_(max=20), "out=": lambda t, v: torch.add(t, v.to(t.dtype), out=t), "indexed": indexed, "in part": in_part,
    "a number": lambda t, v: t.add_(2), "twice": lambda t, v: (t.add_(v), t.add_(1)),
}

OTHER_DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.complex128)
CASES = [*((name, torch.float64) for name in WRITES), *((name, dtype) for name in ("add_", "indexed", "out=") for dtype in OTHER_DTYPES)]


class Total(nn.Module):
    """A buffer, an attribute, an argument and a list, each written alike."""

    def __init__(self, write, dtype):
        super().__init__()
        self.write, self.weight = write, nn.Parameter(torch.ones(()))
        self.register_buffer("total", torch.zeros((), dtype=dtype))
        self.plain, self.several = torch.zeros((), dtype=dtype), [torch.zeros((), dtype=dtype)]

    def forward(self, x, given):
        value = x.detach().sum()
        for tensor in (self.total, self.plain, given, *self.several):
            self.write(tensor, value)
        return x * self.weight


def state(model, call, dtype, gradients):
    given, results = torch.zeros((), dtype=dtype), []
    for rows in (3, 5, 1, 0, 7):
        x = torch.arange(1.0, rows + 1).requires_grad_(gradients)
        results += [call(x, given).detach(), *(tensor.clone() for tensor in (model.total, model.plain, model.several[0], given))]
    return results


@pytest.mark.parametrize("gradients", (False, True))
@pytest.mark.parametrize("name,dtype", CASES, ids=lambda part: str(part))
def test_what_is_written_stays(name, dtype, gradients):
    write = WRITES[name]
    if not dtype.is_floating_point and not dtype.is_complex:
        write = lambda t, v: WRITES[name](t, v.to(t.dtype))  # noqa: E731
    models = [Total(write, dtype) for _ in range(2)]
    compiled = torch.compile(models[1], backend="escapement")
    with torch.set_grad_enabled(gradients):
        for number, (wanted, given) in enumerate(zip(state(models[0], models[0], dtype, gradients), state(models[1], compiled, dtype, gradients))):
            torch.testing.assert_close(given, wanted, msg=lambda text: f"{number}: {text}")  # noqa: B023
    stats = escapement.stats()
    assert stats["launches"] and not stats.get("eager_calls", 0)
    assert stats["recordings"] == 1 and stats["dynamo"]["specialised_dims"] == 0 and stats["dynamo"]["compiles"] == 1, stats


def test_an_argument_that_is_only_read():
    """Torch wants it gone where nothing reads its number; that is no write."""
    def function(x, scale):
        return x * scale

    compiled = torch.compile(function, backend="escapement")
    for number in range(1, 5):
        x, scale = torch.ones(number, requires_grad=True), torch.tensor(float(number), dtype=torch.float64)
        torch.testing.assert_close(compiled(x, scale), function(x, scale))
    assert escapement.stats()["recordings"] <= 2
