"""Replayed functions that trace a program themselves (torch.export, make_fx, torch.jit.trace, fake tensors): the tracer's tensors are none of the function's."""
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import escapement


class Net(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x * 2 + 1).sum(-1)


def exported(x):
    return torch.export.export(Net(), (torch.ones(3, 4),)).module()(torch.ones(3, 4)).sum() + x * 2


def traced_by_fx(x):
    return make_fx(Net())(torch.ones(3, 4))(x) + x.sum()


def traced(x):
    return torch.jit.trace(Net(), torch.ones(3, 4))(x) + x.sum()


def faked(x):
    y = x * 3
    with FakeTensorMode():
        shape = Net()(torch.empty(5, 4)).shape
    return y + shape[0]


@pytest.mark.parametrize("function", [exported, traced_by_fx, traced, faked], ids=lambda function: function.__name__)
def test_as_eager(function):
    replayed = escapement.jit(function, mode="replay")
    for rows in (3, 5, 1, 3):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(replayed(x), function(x))
