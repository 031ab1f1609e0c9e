"""torch.cond and the other higher-order operators inside of escapement.jit: they raised in replay mode, and were never recorded in call mode."""

import pytest
import torch
from torch._higher_order_ops import associative_scan, map as map_rows, scan, while_loop
from torch.nn.attention.flex_attention import flex_attention

import escapement


def choice(x):
    return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y * 2, (x,))


def loop(x):
    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))[1]


def attention(x):
    heads = x[None, None, :, None].expand(1, 1, x.shape[0], 16).contiguous()
    return flex_attention(heads, heads, heads)


PROGRAMS = {
    "cond": choice, "while_loop": loop, "map": lambda x: map_rows(lambda row: row * 2, x), "flex_attention": attention,
    "scan": lambda x: scan(lambda total, row: (total + row, total * row), x[0], x)[1],
    "associative_scan": lambda x: associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic"),
    "cond twice": lambda x: choice(choice(x) - 3),
    "compiled callee": lambda x: torch.compile(lambda y: y * 2, backend="eager")(x) + 1,
}


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name, mode):
    torch.compiler.reset()
    jitted = escapement.jit(PROGRAMS[name], mode=mode)
    with torch.no_grad():
        for size, sign in ((3, 1), (3, -1), (5, 1), (5, -1), (1, 1), (3, 1)):
            x = torch.arange(1.0, size + 1) * sign
            torch.testing.assert_close(jitted(x), PROGRAMS[name](x))


def test_a_choice_is_compiled():
    with torch.no_grad():
        choice(torch.ones(3))   # torch loads what it compiles with
        jitted = escapement.jit(choice)
        for sign in (1, -1, 1, -1):
            jitted(torch.ones(3) * sign)
        before = escapement.stats().get("hits", 0)
        for sign in (1, -1, 1, -1):
            jitted(torch.ones(5) * sign)
        assert jitted.info()["eager"] == {} and escapement.stats()["hits"] == before + 4


def test_where_call_mode_goes_on_in_replay_mode():
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return choice(x) * self.calls

    jitted, module = escapement.jit(Counting()), Counting()
    with torch.no_grad():
        for sign in (1, -1, 1, -1, 1, -1):
            torch.testing.assert_close(jitted(torch.ones(3) * sign), module(torch.ones(3) * sign))


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_functions_that_break(name):
    """Behind the break the operator is met by replay mode, for which some compile themselves with fake tensors."""
    torch.compiler.reset()

    def program(x):
        y = PROGRAMS[name](x)
        return y + 1 if x.sum() > 0 else y - 1

    compiled = escapement.compile(program)
    with torch.no_grad():
        for size, sign in ((3, 1), (3, -1), (5, 1), (5, -1), (1, 1), (3, 1)):
            x = torch.arange(1.0, size + 1) * sign
            torch.testing.assert_close(compiled(x), program(x))
