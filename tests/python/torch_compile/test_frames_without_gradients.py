"""Frames that switch gradients off for all that they do (steps of optimizers that users write, averages, clipping): compiled without a tape, eager's parameters,
and what they give wants gradients as eager's does. (What held parameters ran eagerly.)"""
import copy

import pytest
import torch
from torch import nn

import escapement


class Lion(torch.optim.Optimizer):
    def __init__(self, parameters, lr=1e-2, betas=(0.9, 0.99), decay=0.01):
        super().__init__(parameters, {"lr": lr, "betas": betas, "decay": decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state["mean"] = torch.zeros_like(parameter)
                first, second = group["betas"]
                parameter.mul_(1 - group["lr"] * group["decay"])
                parameter.add_((state["mean"] * first + parameter.grad * (1 - first)).sign_(), alpha=-group["lr"])
                state["mean"].mul_(second).add_(parameter.grad, alpha=1 - second)


class Lamb(torch.optim.Optimizer):
    def __init__(self, parameters, lr=1e-2):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state["mean"], state["square"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
                state["mean"].lerp_(parameter.grad, 0.1)
                state["square"].mul_(0.99).addcmul_(parameter.grad, parameter.grad, value=0.01)
                update = state["mean"] / (state["square"].sqrt() + 1e-6)
                trust = torch.where(update.norm() > 0, parameter.norm() / update.norm(), 1.0)
                parameter.sub_(group["lr"] * trust * update)


def average(network, state):
    with torch.no_grad():
        for mean, parameter in zip(state, network.parameters()):
            mean.lerp_(parameter, 0.1)


@torch.no_grad()
def clip(network, state):
    total = torch.stack([parameter.grad.norm() for parameter in network.parameters()]).norm()
    for parameter in network.parameters():
        parameter.grad.mul_((1.0 / (total + 1e-6)).clamp(max=1.0))
        parameter.sub_(parameter.grad)
    return total


def twice(network, state):
    with torch.no_grad():
        total = sum(parameter.sum() for parameter in network.parameters())
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(0.9).add_(total, alpha=1e-3)
    return total


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))


def train(network, step, schedule=None):
    for rows in (4, 7, 1, 12, 4, 3):
        network.zero_grad()
        network(torch.randn(rows, 8, generator=torch.Generator().manual_seed(rows))).square().mean().backward()
        step()
        assert torch.is_grad_enabled()
        if schedule is not None:
            for group in schedule.param_groups:
                group["lr"] *= 0.9
    return [parameter.detach().clone() for parameter in network.parameters()]


@pytest.mark.parametrize("schedule", [False, True])
@pytest.mark.parametrize("kind", [Lion, Lamb, "Muon"], ids=str)
def test_optimizers(kind, schedule):
    torch.compiler.reset()
    made = []
    for wrap in (lambda step: step, lambda step: torch.compile(step, backend="escapement")):
        network = model()
        matrices = [parameter for parameter in network.parameters() if kind != "Muon" or parameter.dim() == 2]
        optimizer = (torch.optim.Muon if kind == "Muon" else kind)(matrices, lr=1e-2)
        made.append(train(network, wrap(optimizer.step), optimizer if schedule else None))
    for eagers, ours in zip(*made):
        torch.testing.assert_close(ours, eagers, rtol=1e-4, atol=1e-5)
    stats = escapement.stats()
    assert not stats.get("eager_calls") and stats["hits"] >= 4 and stats["recordings"] <= 2 and stats["launches"] > 0, stats


@pytest.mark.parametrize("function", [average, clip, twice], ids=lambda function: function.__name__)
def test_functions(function):
    torch.compiler.reset()
    made = []
    for wrap in (lambda step: step, lambda step: torch.compile(step, backend="escapement")):
        network = model()
        state = [torch.zeros_like(parameter) for parameter in network.parameters()]
        step = wrap(function)
        made.append(train(network, lambda: step(network, state)) + state)
    for eagers, ours in zip(*made):
        torch.testing.assert_close(ours, eagers, rtol=1e-4, atol=1e-5)
    stats = escapement.stats()
    assert not stats.get("eager_calls") and stats["hits"] >= 5 and stats["launches"] > 0, stats


def test_what_comes_back_wants_no_gradient():
    torch.compiler.reset()
    parameter = nn.Parameter(torch.ones(4, 3))

    def function(x):
        with torch.no_grad():
            return x * parameter, parameter.t(), x.view(-1)

    compiled = torch.compile(function, backend="escapement")
    for rows in (4, 4):
        x = torch.ones(rows, 3, requires_grad=True)
        for ours, eagers in zip(compiled(x), function(x)):
            assert torch.equal(ours, eagers) and ours.requires_grad == eagers.requires_grad and ours._is_view() == eagers._is_view()


def test_what_is_done_with_gradients_keeps_them():
    torch.compiler.reset()
    parameter = nn.Parameter(torch.ones(3))

    def function(x):
        with torch.no_grad():
            scale = x.abs().max()
        y = x / scale * parameter
        with torch.no_grad():
            shift = y.mean()
        return y - shift

    compiled = torch.compile(function, backend="escapement")
    for rows in (4, 2, 7):
        x = torch.randn(rows, 3)
        grads = []
        for called in (compiled, function):
            parameter.grad = None
            called(x).square().sum().backward()
            grads.append(parameter.grad.clone())
        torch.testing.assert_close(*grads)


def test_an_exception_leaves_the_mode_as_it_was():
    torch.compiler.reset()
    parameter = nn.Parameter(torch.ones(4, 3))

    @torch.no_grad()
    def function(x):
        return parameter.mul_(0.5) @ x

    compiled = torch.compile(function, backend="escapement")
    compiled(torch.ones(3, 2))
    with pytest.raises(Exception, match="(?i)size|shape|mat"):
        compiled(torch.ones(5, 2))
    assert torch.is_grad_enabled()
    parameter_before = parameter.detach().clone()
    torch.testing.assert_close(compiled(torch.ones(3, 2)), parameter_before * 0.5 @ torch.ones(3, 2))


def test_copies_share_nothing():
    torch.compiler.reset()
    network = model()
    other = copy.deepcopy(network)

    @torch.no_grad()
    def blend(a, b):
        for x, y in zip(a.parameters(), b.parameters()):
            x.copy_(0.5 * x + 0.5 * y)

    torch.compile(blend, backend="escapement")(network, other)
    assert all(torch.equal(x, y) and x.requires_grad for x, y in zip(network.parameters(), other.parameters()))


# --- frames that run without gradients, and switch them on for a part: `lazy_property` of distributions does

class Policy(torch.nn.Module):
    def __init__(self, head):
        super().__init__()
        self.layer, self.head = torch.nn.Linear(3, 4), head
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        return self.head(self.layer(x), self)


def enabled(body):
    def head(y, module):
        with torch.enable_grad():
            return body(y, module)
    return head


QUIET = {
    "categorical": lambda y, _: torch.distributions.Categorical(logits=y).sample(), "bernoulli": lambda y, _: torch.distributions.Bernoulli(logits=y).sample(),
    "log_prob": lambda y, _: torch.distributions.Categorical(logits=y).log_prob(torch.zeros(y.shape[:-1])), "normal": lambda y, _: torch.distributions.Normal(y, 1.0).rsample(),
    "used outside": lambda y, module: enabled(lambda y, _: y.softmax(-1))(y, module) * 2, "weights used outside": lambda y, module: enabled(lambda y, m: m.layer.weight.sum())(y, module) * y,
    "detached": enabled(lambda y, module: (y * module.layer.weight.sum()).detach()),
}
KEPT = {
    "handed out": enabled(lambda y, module: y * module.layer.weight.sum()), "written": enabled(lambda y, module: module.seen.add_(module.layer.weight.sum()) + y),
    "view handed out": enabled(lambda y, module: module.layer.weight.view(-1)), "asked to": enabled(lambda y, module: y.requires_grad_() * 2),
}


@pytest.mark.parametrize("name", [*QUIET, *KEPT])
def test_gradients_switched_on_for_a_part(name):
    torch.compiler.reset()
    escapement.reset()
    module = Policy({**QUIET, **KEPT}[name])
    eager = copy.deepcopy(module)
    compiled = torch.compile(module, backend="escapement")
    with torch.no_grad():
        for rows in (4, 1, 7):
            x = torch.randn(rows, 3)
            torch.manual_seed(rows)
            expected = eager(x)
            torch.manual_seed(rows)
            result = compiled(x)
            torch.testing.assert_close(result, expected)
            assert result.requires_grad == expected.requires_grad and module.seen.requires_grad == eager.seen.requires_grad
    if name in QUIET:
        assert escapement.stats()["dynamo"]["fallbacks"] == {} and escapement.stats()["recordings"] > 0
