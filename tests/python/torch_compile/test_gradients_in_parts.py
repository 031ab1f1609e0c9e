"""Activations and losses whose gradients are operators of their own: eager's gradients, one recording of each graph for all sizes, and no library call
for them. (They were calls with sizes of their own, so that nothing behind them was fused.)"""
import pytest
import torch
import torch.nn.functional as F

import escapement

EDGES = (0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0, 0.5, -0.5, 20.0, 25.0, -30.0)


def beside(x):
    return (x.detach() * 2).roll(1, -1)


ACTIVATIONS = {
    "elu": F.elu, "selu": F.selu, "celu": F.celu, "elu alpha": lambda x: F.elu(x, 0.5), "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "hardtanh": F.hardtanh,
    "relu6": F.relu6, "leaky_relu": F.leaky_relu, "leaky_relu 0.2": lambda x: F.leaky_relu(x, 0.2), "softplus": F.softplus, "softplus beta": lambda x: F.softplus(x, 2.0, 5.0),
    "glu": F.glu, "glu of rows": lambda x: F.glu(torch.cat([x, x * 2]), 0), "logsigmoid": F.logsigmoid, "prelu": lambda x: F.prelu(x, x.detach().sum().reshape(1) * 0 + 0.2),
    "logit": lambda x: torch.logit(x.sigmoid(), 1e-3), "softshrink": F.softshrink, "hardshrink": F.hardshrink, "threshold": lambda x: F.threshold(x, 0.1, -1.0), "mish": F.mish,
}
LOSSES = {
    "mse": lambda x: F.mse_loss(x, beside(x)), "mse sum": lambda x: F.mse_loss(x, beside(x), reduction="sum"), "mse none": lambda x: F.mse_loss(x, beside(x), reduction="none"),
    "smooth": lambda x: F.smooth_l1_loss(x, beside(x)), "smooth none": lambda x: F.smooth_l1_loss(x, beside(x), reduction="none", beta=0.5),
    "smooth beta 0": lambda x: F.smooth_l1_loss(x, beside(x), beta=0.0), "huber": lambda x: F.huber_loss(x, beside(x)), "huber none": lambda x: F.huber_loss(x, beside(x), reduction="none", delta=0.7),
    "l1": lambda x: F.l1_loss(x, beside(x)), "soft margin": lambda x: F.soft_margin_loss(x, beside(x).sign()), "bce": lambda x: F.binary_cross_entropy(x.sigmoid() * 0.98 + 0.01, beside(x).sigmoid()),
    "bce weighted": lambda x: F.binary_cross_entropy(x.sigmoid() * 0.98 + 0.01, beside(x).sigmoid(), weight=beside(x).abs(), reduction="none"),
    "preference": lambda x: -F.logsigmoid(0.1 * (x - beside(x))).mean(),
}


def gradient(program, x):
    x = x.detach().requires_grad_()
    result = program(x)
    (result * 3).sum().backward()
    return result.detach(), x.grad


def made(rows, dtype):
    values = torch.tensor(EDGES * 5).reshape(-1, 12)
    return (values[:, :12].repeat(3, 1)[:rows] + torch.linspace(-0.5, 0.5, rows)[:, None].floor()).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("name", [*ACTIVATIONS, *LOSSES])
def test_gradients(name, dtype):
    if (name, dtype) == ("logit", torch.bfloat16):
        pytest.skip("eager's bounds are those of float")
    torch.compiler.reset()
    program = {**ACTIVATIONS, **LOSSES}[name]
    compiled = torch.compile(program, backend="escapement")
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-10, torch.bfloat16: 2e-2}[dtype]
    for rows in (5, 7, 2, 9):
        for ours, eagers in zip(gradient(compiled, made(rows, dtype)), gradient(program, made(rows, dtype))):
            torch.testing.assert_close(ours, eagers, rtol=tolerance, atol=tolerance)
    stats = escapement.stats()
    assert stats["recordings"] == 2 and stats["hits"] == 6 and not stats.get("eager_calls") and stats["launches"] >= (3 if name == "hardsigmoid" else 6) and stats["dynamo"]["specialised_dims"] <= (name == "glu"), stats


@pytest.mark.parametrize("name", ["leaky_relu", "hardtanh", "elu", "softplus", "logsigmoid", "glu", "mse none", "smooth none", "huber none", "preference"])
def test_no_library_calls(name):
    torch.compiler.reset()
    program = {**ACTIVATIONS, **LOSSES}[name]
    compiled = torch.compile(program, backend="escapement")
    for rows in (5, 7):
        gradient(compiled, made(rows, torch.float32))
    assert escapement.stats().get("library_calls", 0) <= ("preference" in name or "none" in name), escapement.stats()   # roll


@pytest.mark.parametrize("name", ["leaky_relu", "logsigmoid", "mse", "smooth", "huber", "soft margin", "bce", "preference"])
@pytest.mark.parametrize("first_rows", [(4, 1, 0, 3), (0, 3, 1), (1, 0, 4)], ids=str)
def test_nothing_and_one_row(name, first_rows):
    torch.compiler.reset()
    program = {**ACTIVATIONS, **LOSSES}[name]
    compiled = torch.compile(program, backend="escapement")
    for rows in first_rows:
        for ours, eagers in zip(gradient(compiled, made(rows, torch.float32)), gradient(program, made(rows, torch.float32))):
            torch.testing.assert_close(ours, eagers, rtol=1e-5, atol=1e-5, equal_nan=True)
    if 0 not in first_rows or name not in ("mse", "smooth", "huber"):   # torch's own fakes divide by the number of elements there: the graph runs eagerly
        assert not escapement.stats().get("eager_calls") and not escapement.stats()["dynamo"]["fallbacks"], escapement.stats()
