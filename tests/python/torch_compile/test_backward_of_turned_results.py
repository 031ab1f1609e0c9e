"""Training through activations whose results are turned before they are used: the gradient that comes back lies otherwise than what the forward kept, and
ATen asks one or the other first for the order of the result. (The backward of relu asks the forward's; taken for the other it was refused, and ran eagerly.)"""

import copy

import pytest
import torch
import torch.nn.functional as F

import escapement

ACTIVATIONS = {
    "relu": F.relu, "threshold": lambda x: F.threshold(x, 0.1, 0.0), "relu6": F.relu6, "leaky_relu": F.leaky_relu, "elu": F.elu, "selu": F.selu, "celu": F.celu, "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "mish": F.mish, "softplus": F.softplus, "softsign": F.softsign, "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid, "hardtanh": F.hardtanh, "hardshrink": F.hardshrink, "softshrink": F.softshrink, "tanhshrink": F.tanhshrink, "logsigmoid": F.logsigmoid,
    "sigmoid": torch.sigmoid, "tanh": torch.tanh, "clamp": lambda x: x.clamp(min=0), "clamp both": lambda x: x.clamp(-0.5, 0.5), "where": lambda x: torch.where(x > 0, x, x * 0.1),
    "abs": torch.abs, "square": torch.square, "glu": lambda x: F.glu(x, 1), "relu in place": lambda x: F.relu_(x * 1), "dropout": lambda x: F.dropout(x, 0.0, True),
    "softmax": lambda x: x.softmax(1), "relu twice": lambda x: F.relu(F.relu(x) - 0.1), "maximum": lambda x: torch.maximum(x, x.new_zeros(())),
}
TURNS = {
    "transpose": lambda y: y.transpose(1, 2), "permute": lambda y: y.permute(2, 0, 1), "rows": lambda y: y.transpose(1, 2).reshape(-1, y.shape[1]), "flatten": lambda y: y.flatten(1),
    "mean": lambda y: y.mean(-1), "transposed twice": lambda y: y.transpose(1, 2).square().transpose(1, 2), "last": lambda y: y[..., -1],
}
SIZES = ((3, 5), (2, 4), (1, 7), (4, 1), (0, 4), (3, 6))


class Net(torch.nn.Module):
    def __init__(self, activation, turn, convolution):
        super().__init__()
        self.first = torch.nn.Conv1d(2, 4, 3, padding=1) if convolution else torch.nn.Linear(2, 4)
        self.scale, self.activation, self.turn, self.convolution = torch.nn.Parameter(torch.randn(4, 1)), activation, turn, convolution

    def forward(self, x):
        y = self.first(x) if self.convolution else self.first(x.transpose(1, 2)).transpose(1, 2)
        return self.turn(self.activation(y * self.scale)).square().mean()


def compare(net):
    torch.compiler.reset()
    escapement.reset()
    eager, compiled = copy.deepcopy(net), torch.compile(net, backend="escapement")
    for batch, length in SIZES:
        x = torch.randn(batch, 2, length)
        torch.testing.assert_close(compiled(x), eager(x), rtol=1e-4, atol=1e-5, equal_nan=True)
        net.zero_grad(), eager.zero_grad()
        compiled(x).backward(), eager(x).backward()
        for ours, theirs in zip(net.parameters(), eager.parameters()):
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5, equal_nan=True)


def expect_compiles(compiles=1):
    stats = escapement.stats()
    assert stats.get("recorder_refused", 0) == 0 and stats["dynamo"]["fallbacks"] == {}
    assert stats["dynamo"]["compiles"] == compiles and stats["launches"] > 0


@pytest.mark.parametrize("turn", TURNS)
def test_relu(turn):
    for convolution in (True, False):
        compare(Net(F.relu, TURNS[turn], convolution))
        expect_compiles()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(activation):
    compare(Net(ACTIVATIONS[activation], TURNS["rows"], True))
    expect_compiles(2 if activation == "logsigmoid" else 1)   # whose decomposition asks whether there is anything
