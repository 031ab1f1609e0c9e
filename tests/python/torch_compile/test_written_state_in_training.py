"""State that a program reads and writes while it is trained (counters, moving averages, temperatures): gradients are those of what the forward has read."""

import copy

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

import escapement


class State(nn.Module):
    def __init__(self, program, **buffers):
        super().__init__()
        self.program, self.weight = program, nn.Parameter(torch.linspace(0.5, 1.5, 3))
        for name, value in buffers.items():
            self.register_buffer(name, torch.as_tensor(value))

    def forward(self, x):
        return self.program(self, x)


def warm_up(self, x):
    self.step += 1
    return x * self.weight * torch.clamp(self.step / 4, max=1.0)


def read_then_written(self, x):
    scale = self.state.exp()
    result = x * self.weight * scale
    self.state.add_(1)
    return result


def annealed(self, x):
    result = F.softmax(x * self.weight / (self.temperature * 1), -1)
    self.temperature.mul_(0.9)
    return result


def written_and_read(self, x):
    self.state.mul_(0.5).add_(x.detach().mean(0), alpha=0.5)
    return ((x - self.state) * self.weight).sin() / (self.state.square() + 1).sqrt()


def corrected(self, x):
    self.step += 1
    self.state.lerp_(x.detach().mean(0), 0.1)
    return x * self.weight - (self.state / (1 - 0.9 ** self.step)).tanh() * self.weight.exp()


def assigned(self, x):
    result = x * self.weight * self.state.sigmoid()
    self.state = self.state + 1
    return result


def written_twice(self, x):
    first = self.state.cos() * self.weight
    self.state.add_(1)
    second = self.state.cos() * self.weight
    self.state.copy_(second.detach())
    return x * first + x.square() * second * self.state


def written_by_index(self, x):
    kept = self.table[self.step % 4].exp()
    self.table[self.step % 4] = x.detach().mean(0)
    self.step += 1
    return x * kept * self.weight


def viewed(self, x):
    flat = self.table.view(-1)[:3].sinh()
    self.table.add_(0.25)
    return (x * flat * self.weight).cos()


PROGRAMS = {
    "warm-up": lambda: State(warm_up, step=0), "read, then written": lambda: State(read_then_written, state=torch.zeros(3)), "annealed": lambda: State(annealed, temperature=2.0),
    "written and read": lambda: State(written_and_read, state=torch.zeros(3)), "corrected": lambda: State(corrected, step=0, state=torch.zeros(3)), "assigned": lambda: State(assigned, state=torch.zeros(3)),
    "written twice": lambda: State(written_twice, state=torch.zeros(3)), "by index": lambda: State(written_by_index, step=0, table=torch.rand(4, 3)), "a view": lambda: State(viewed, table=torch.rand(4, 3)),
    "batch norm": lambda: State(lambda self, x: self.norm(x) * self.weight + self.norm.running_var.sqrt(), unused=0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_of_what_was_read(name):
    torch._dynamo.reset()
    escapement.reset()
    torch.manual_seed(0)
    eager = PROGRAMS[name]()
    if name == "batch norm":
        eager.norm = nn.BatchNorm1d(3)
    ours = copy.deepcopy(eager)
    compiled = torch.compile(ours, backend="escapement")
    for rows in (5, 2, 7, 13, 3):
        given = torch.randn(rows, 3)
        found = []
        for module, call in ((ours, compiled), (eager, eager)):
            x = given.clone().requires_grad_()
            result = call(x)
            found.append((result, *torch.autograd.grad(result.square().sum(), [x, module.weight]), *module.buffers()))
        for a, b in zip(*found, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    assert escapement.stats()["dynamo"]["compiles"] <= 2, escapement.stats()["dynamo"]


@pytest.mark.parametrize("after", [False, True])
def test_state_that_is_an_argument(after):
    def program(x, weight, state):
        scale = state.exp()
        result = x * weight * scale if not after else None
        state.add_(1)
        return x * weight * state.exp() if after else result

    torch._dynamo.reset()
    compiled = torch.compile(program, backend="escapement")
    ours, eager = torch.zeros(3), torch.zeros(3)
    for rows in (5, 1, 7, 1):
        x, gradients = torch.randn(rows, 3), []
        for call, state in ((compiled, ours), (program, eager)):
            weight = torch.ones(3, requires_grad=True)
            call(x, weight, state).sum().backward()
            gradients.append(weight.grad)
        torch.testing.assert_close(*gradients)
        torch.testing.assert_close(ours, eager)
