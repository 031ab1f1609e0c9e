"""State that an exported program writes: each write, and each result, is of the state as it was before any of them."""

import pytest
import torch
from harness import core

pytestmark = pytest.mark.skipif(not hasattr(core(), "load_exported"), reason="needs the compiled core")


class Module(torch.nn.Module):
    def __init__(self, **buffers):
        super().__init__()
        for name, value in buffers.items():
            self.register_buffer(name, value)


class Shift(Module):
    """The last three arguments."""

    def forward(self, x):
        seen = torch.stack([x, self.a, self.b, self.c])
        self.c.copy_(self.b)
        self.b.copy_(self.a)
        self.a.copy_(x)
        return seen


class Swap(Module):
    def forward(self, x):
        old = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(old)
        return x + self.a - self.b


class Last(Module):
    """What was there, and what is there."""

    def forward(self, x):
        old = self.a.clone()
        self.a.copy_(x)
        return old, self.a * 1


class Turned(Module):
    """By a view of what is written meanwhile."""

    def forward(self, x):
        old = self.a.view(3, 1).expand(3, 2).clone()
        self.b.copy_(self.a.flip(0))
        self.a.copy_(x)
        return old.sum(1), self.b + 0


class Ring(Module):
    """A buffer that moves along by itself, and one that counts."""

    def forward(self, x):
        self.a.copy_(torch.cat([self.a[1:], x[:1]]))
        self.b.add_(1)
        return self.a.sum() + self.b


def numbers(*values):
    return torch.tensor(values, dtype=torch.float32)


MODULES = {
    "shift": lambda: Shift(a=numbers(1, 2, 3), b=numbers(4, 5, 6), c=numbers(7, 8, 9)),
    "swap": lambda: Swap(a=numbers(1, 2, 3), b=numbers(4, 5, 6)),
    "last": lambda: Last(a=numbers(1, 2, 3)),
    "turned": lambda: Turned(a=numbers(1, 2, 3), b=numbers(4, 5, 6)),
    "ring": lambda: Ring(a=numbers(1, 2, 3), b=torch.zeros(())),
}


@pytest.mark.parametrize("decomposed", (True, False))
@pytest.mark.parametrize("name", MODULES)
def test_state_is_written_as_the_program_says(name, decomposed, tmp_path):
    eager, path = MODULES[name](), str(tmp_path / "model.pt2")
    program = torch.export.export(MODULES[name](), (torch.zeros(3),))
    torch.export.save(program.run_decompositions({}) if decomposed else program, path)
    ours = core().load_exported(path)
    for value in (5.0, 7.0, 9.0, 11.0, 13.0):
        x = torch.full((3,), value) + torch.arange(3)
        wanted, made = eager(x), ours(x)
        for result, expected in zip(made, wanted if isinstance(wanted, tuple) else (wanted,)):
            torch.testing.assert_close(result, expected, rtol=0, atol=0)


class Sum(Module):
    """What it writes is its result."""

    def forward(self, x):
        self.a.add_(x)
        return self.a, self.a * 2, x.add_(1)


@pytest.mark.parametrize("decomposed", (True, False))
def test_a_result_that_was_written_back_is_the_tensor_itself(decomposed, tmp_path):
    path = str(tmp_path / "model.pt2")
    program = torch.export.export(Sum(a=numbers(1, 2, 3)), (torch.zeros(3),))
    torch.export.save(program.run_decompositions({}) if decomposed else program, path)
    eager, ours = torch.export.load(path).module(), core().load_exported(path)
    states = []
    for value in (5.0, 7.0, 9.0, 11.0):
        x, y = torch.full((3,), value), torch.full((3,), value)
        wanted, made = eager(x), ours(y)
        torch.testing.assert_close(made, type(made)(wanted), rtol=0, atol=0)
        assert [a is x for a in wanted] == [a is y for a in made] == [False, False, True]
        states.append(made[0])
    assert len({state.data_ptr() for state in states}) == 1, "the buffer is one tensor"
    torch.testing.assert_close(states[0], states[-1], rtol=0, atol=0)
