"""torch.func inside of a compiled function: eager's values, one compile for all sizes where torch's own symbols allow it, no call eagerly. (A graph that
takes derivatives itself ran eagerly, or raised from the second size on: its tapes keep wrappers that no recording can look into.)"""
import pytest
import torch
from torch import nn
from torch.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

import escapement

WEIGHT = torch.linspace(-1, 1, 12).reshape(3, 4)


def network(trained):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1)).requires_grad_(trained)


FROZEN, TRAINED = network(False), network(True)
BODIES = {
    "product": lambda v: (v @ WEIGHT).tanh().square().sum(),
    "choice": lambda v: torch.where(v > 0, v * v, v.abs() + v ** 3).mean(),
    "written": lambda v: v.clone().mul_(2).add_(v).square().sum(),
    "parts": lambda v: (v[..., 0] * v[..., 1:].sum(-1)).exp().sum(),
    "frozen": lambda v: FROZEN(v).sum(),
    "trained": lambda v: TRAINED(v).sum(),
}
REVERSE = {
    "grad": lambda f: lambda x: grad(f)(x),
    "grad_and_value": lambda f: lambda x: grad_and_value(f)(x),
    "vjp of a tensor made inside": lambda f: lambda x: vjp(f, x)[1](torch.tensor(2.0))[0],
    "grad of grad": lambda f: lambda x: grad(lambda y: grad(f)(y).square().sum())(x),
    "rows": lambda f: lambda x: vmap(f)(x),
}
FORWARD = {"jvp": lambda f: lambda x: jvp(f, (x,), (x.cos(),)), "jacfwd": lambda f: lambda x: jacfwd(f)(x)}
NOT_TRACED = {"linearize": lambda f: lambda x: linearize(f, x)[1](x.cos())}   # a graph of its own, made while it runs
ROWS = {"gradients of rows": lambda f: lambda x: vmap(grad(f))(x), "jacobians of rows": lambda f: lambda x: vmap(jacrev(f))(x)}
SIZES = (5, 7, 2, 9, 3)
HAVE_WEIGHTS = ("product", "frozen", "trained")   # of a given size, which the tensor must have


def compare(fn, sizes=SIZES):
    torch.compiler.reset()
    escapement.reset()   # what ran before in this process is not ours
    ours = torch.compile(fn, backend="escapement")
    for rows in sizes:
        x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(rows))
        torch.testing.assert_close(ours(x), fn(x), rtol=1e-4, atol=1e-5)
    return escapement.stats()


def expect_one_compile(stats, body, recordings=1):
    assert stats["launches"] >= len(SIZES) - 1 and (body in HAVE_WEIGHTS or stats["dynamo"]["specialised_dims"] == 0), stats
    assert stats["dynamo"]["compiles"] == 1 and not stats.get("eager_calls") and stats["recordings"] <= recordings, stats
    assert stats["hits"] == len(SIZES) - stats["recordings"], stats


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("transform", REVERSE)
def test_one_compile_serves_all_sizes(transform, body):
    if (transform, body) == ("grad of grad", "choice"):
        pytest.skip("torch's own symbols make it a compile a size")
    expect_one_compile(compare(REVERSE[transform](BODIES[body])), body)


@pytest.mark.parametrize("body", ["product", "frozen", "trained", "choice"])
@pytest.mark.parametrize("transform", ROWS)
def test_derivatives_of_each_row(transform, body):
    expect_one_compile(compare(ROWS[transform](BODIES[body])), body)


# A tensor without a tangent beside one with: torch asks for sizes as numbers (`F.linear` with a bias, a sum with a constant).
@pytest.mark.parametrize("body", ["product", "choice", "parts"])
@pytest.mark.parametrize("transform", FORWARD)
def test_forward_mode(transform, body):
    expect_one_compile(compare(FORWARD[transform](BODIES[body])), body)


@pytest.mark.parametrize("trained", [False, True])
def test_a_graph_that_torch_pins_is_eagers(trained):
    stats = compare(lambda x: vmap(hessian(lambda y: (TRAINED if trained else FROZEN)(y).squeeze()))(x), (5, 7, 5))
    assert not any("internal" in reason for reason in stats.get("fallbacks", {})), stats


@pytest.mark.parametrize("transform", [*REVERSE, *ROWS, *FORWARD, *NOT_TRACED])
def test_sizes_of_one_and_nothing(transform):
    compare({**REVERSE, **ROWS, **FORWARD, **NOT_TRACED}[transform](BODIES["product"]), (4, 1, 0, 6))
