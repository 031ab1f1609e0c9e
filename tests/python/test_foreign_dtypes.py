"""Dtypes that have no kernels of ours: complex, the wider unsigned integers, float8. Their operators are library calls inside a recording
that is made once for all sizes, whether such a tensor is an argument, a number, a literal, a parameter or something in between."""

import pytest
import torch

import escapement

SIZES = (3, 5, 1, 0, 2, 7)
FOREIGN = (torch.complex64, torch.complex128, torch.complex32, torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2)
FREQUENCIES = torch.polar(torch.ones(7), torch.arange(7.))


def set_first(c, value):
    c[:1] = value
    return c


def write_each(c):
    for s in range(c.shape[0] and 1):
        c[s] = s
    return c


# Of a float32 tensor of one axis, at every size.
PROGRAMS = {
    "number": lambda x: x * 1j,
    "literal": lambda x: x * torch.tensor(1j),
    "literal list": lambda x: torch.tensor([2j, 3]) * x.sum(),
    "literal uint64": lambda x: torch.tensor([2**63 + 5], dtype=torch.uint64),
    "global": lambda x: FREQUENCIES[:x.shape[0]] * x,
    "filled": lambda x: (x * 1j).fill_(2),
    "zeroed": lambda x: (x * 1j).zero_(),
    "in place": lambda x: (x * 1j).mul_(2j).add_(x),
    "full": lambda x: torch.full((x.shape[0],), 2j),
    "where": lambda x: torch.where(x > 0, x * 1j, torch.tensor(0j)),
    "expanded literal": lambda x: torch.tensor(1j).expand(x.shape[0]).contiguous(),
    "expanded": lambda x: (x * 1j).expand(2, x.shape[0]).reshape(-1),
    "stack": lambda x: torch.stack([x * 1j, x + 0j]),
    "real and imaginary": lambda x: torch.view_as_real(x * 1j) * 2,
    "complex of two": lambda x: torch.complex(x, x + 1).abs() * 2,
    "sum": lambda x: (x * 1j).sum(0),
    "to real": lambda x: (x * (1 + 1j)).abs() * 2,
    "set": lambda x: set_first(x * 1j, 3),
    "set complex": lambda x: set_first(x * 1j, 1j),
    "set unsigned": lambda x: set_first(x.to(torch.uint16), 3),
    "set each": lambda x: write_each(x * 1j),
    "full_like": lambda x: torch.full_like(x, 3, dtype=torch.uint32),
    "bits": lambda x: x.view(torch.uint32).view(torch.float32) + 1,
    "half complex": lambda x: x.to(torch.complex64).to(torch.complex32).to(torch.complex64),
    "float8": lambda x: x.to(torch.float8_e4m3fn).to(torch.float32) + 1,
    "item of uint16": lambda x: x * x.sum().to(torch.uint16).item(),
    "item of float8": lambda x: x * (x.sum() * 0 + 2).to(torch.float8_e4m3fn).item(),
    "fft": lambda x: torch.fft.ifft(torch.fft.fft(torch.cat([x, x.new_ones(1)]))).real,
}
# How often they may be recorded: a loop over a size asks for it, and a slice whether its bound is within the axis, as for any dtype.
ASKS = {"set each": 3, "set": 2, "set complex": 2, "set unsigned": 2}
# Those that run eagerly, counted.
EAGER = {"item of complex": lambda x: x * (x * 1j).sum().item().imag, "item of uint64": lambda x: x * x.sum().to(torch.uint64).item()}


def called(f, x):
    with torch.no_grad():
        return f(x)


def check(compiled, f, inputs):
    for x in inputs:
        torch.testing.assert_close(called(compiled, x.clone()), called(f, x.clone()), rtol=0, atol=0)


@pytest.mark.parametrize("name", PROGRAMS)
def test_in_a_program(name):
    f = PROGRAMS[name]
    escapement.reset()
    check(escapement.jit(f, strict=name not in ASKS), f, [torch.arange(1., n + 1) for n in SIZES])
    assert escapement.stats()["recordings"] <= ASKS.get(name, 1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_in_replay_mode(name):
    f = PROGRAMS[name]
    check(escapement.jit(f, mode="replay"), f, [torch.arange(1., n + 1) for n in SIZES])


@pytest.mark.parametrize("name", EAGER)
def test_read_by_the_host_runs_eagerly_and_is_counted(name):
    escapement.reset()
    check(escapement.jit(EAGER[name]), EAGER[name], [torch.arange(1., n + 1) for n in SIZES])
    stats = escapement.stats()
    assert stats["recorder_refused"] == len(SIZES) and "internal_error" not in stats


@pytest.mark.parametrize("dtype", FOREIGN, ids=str)
@pytest.mark.parametrize("compiler", ["call", "replay", "compile"])
def test_as_an_argument(dtype, compiler):
    def f(x):
        return x.reshape(-1).clone()
    torch._dynamo.reset()
    escapement.reset()
    compiled = torch.compile(f, backend="escapement") if compiler == "compile" else escapement.jit(f, mode=compiler)
    for n in SIZES:
        x = torch.arange(n).to(dtype)
        assert called(compiled, x).view(torch.uint8).tolist() == x.view(torch.uint8).tolist()
    assert escapement.stats().get("recordings", 0) <= 1 or compiler == "replay"


def test_another_dtype_is_another_program():
    def f(x):
        return x + x
    compiled = escapement.jit(f)
    for dtype in (torch.complex64, torch.complex128, torch.float32, torch.complex64, torch.complex128):
        x = torch.arange(3).to(dtype)
        assert called(compiled, x).dtype == dtype
    assert sum(r["recordings"] for r in compiled.info()["regions"]) == 3


def test_a_complex_parameter():
    class Turn(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("by", torch.polar(torch.ones(4), torch.arange(4.)))

        def forward(self, x):
            return torch.view_as_real(torch.view_as_complex(x) * self.by).flatten(-2) * 2
    module = Turn()
    escapement.reset()
    check(escapement.jit(module, strict=True), module, [torch.randn(n, 4, 2) for n in SIZES])
    assert escapement.stats()["recordings"] == 1
