"""`torch.compile(optimizer.step)`, every optimizer of torch's, one tensor at a time and by lists: eager's parameters, no call eagerly, and no
recording more for a learning rate that a scheduler changes."""
import copy

import pytest
import torch
from torch import nn

import escapement

ADAMS = ["Adam", "AdamW", "NAdam", "RAdam", "Adamax"]
OTHERS = ["SGD", "RMSprop", "Adagrad", "Adadelta", "ASGD", "Rprop"]
OPTIONS = [(name, {}) for name in ADAMS + OTHERS] + [("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}), ("Adam", {"amsgrad": True}),
                                                     ("AdamW", {"maximize": True}), ("RMSprop", {"centered": True, "momentum": 0.5})]


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


def train(network, optimizer, step, scheduler=None):
    for rows in (4, 7, 1, 12, 4, 3):
        optimizer.zero_grad()
        x = torch.randn(rows, 8, generator=torch.Generator().manual_seed(rows))
        network(x).square().mean().backward()
        step()
        if scheduler:
            scheduler.step()


def compare(name, options, schedule=False):
    torch.compiler.reset()
    eager, ours = model(), model()
    optimizers = [getattr(torch.optim, name)(network.parameters(), lr=1e-2, **options) for network in (eager, ours)]
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9) if schedule else None for optimizer in optimizers]
    before = escapement.stats()
    train(eager, optimizers[0], optimizers[0].step, schedulers[0])
    train(ours, optimizers[1], torch.compile(optimizers[1].step, backend="escapement"), schedulers[1])
    for a, b in zip(eager.parameters(), ours.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    after = escapement.stats()
    return {name: after.get(name, 0) - before.get(name, 0) for name in ("calls", "recordings", "eager_calls")}


@pytest.mark.parametrize("foreach", [None, False, True])
@pytest.mark.parametrize("name, options", OPTIONS, ids=lambda value: value if isinstance(value, str) else "-".join(value))
def test_parameters_are_eagers(name, options, foreach):
    grown = compare(name, {**options, "foreach": foreach})
    assert grown["calls"] >= 5 and grown["recordings"] <= 2 and not grown["eager_calls"], grown


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_a_learning_rate_that_changes(name):
    grown = compare(name, {}, schedule=True)
    assert not grown["eager_calls"] and grown["recordings"] <= 2, grown
