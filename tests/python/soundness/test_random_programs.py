"""Random chains of ops, each recorded once and called at random shapes and layouts, against eager: values, dtypes, sizes, strides,
what happens to the arguments, exceptions. A failure names its seed. More seeds: ESCAPEMENT_FUZZ_ROUNDS."""

import os
import random

import pytest
import torch
import torch.nn.functional as F
from harness import assert_same_form, region

ROUNDS = int(os.environ.get("ESCAPEMENT_FUZZ_ROUNDS", "120"))
UNARY = [
    torch.relu, torch.neg, torch.abs, lambda x: x * 2, lambda x: x + 1.5, torch.floor, lambda x: x.t(), lambda x: x[1:] if x.shape[0] > 1 else x,
    lambda x: x.contiguous(), lambda x: x.sum(0, keepdim=True), lambda x: x.amax(-1, keepdim=True), lambda x: x.unsqueeze(0).squeeze(0),
    lambda x: torch.cat([x, x], 0), lambda x: F.pad(x, (1, 0)), lambda x: x.reshape(-1, 1), lambda x: x.flip(0), lambda x: x.to(torch.bfloat16).float(),
    lambda x: torch.where(x > 0, x, x * 0.5), lambda x: x.double().float(), lambda x: x.add_(1), lambda x: x.clone().mul_(3), lambda x: x.cumsum(0),
    lambda x: x.triu(), lambda x: x[:, :1], lambda x: x.expand(*x.shape), lambda x: x.softmax(-1), lambda x: torch.roll(x, 1, 0),
    lambda x: x.view(torch.int32).bitwise_and(0x7FFFFFFF).view(torch.float32), lambda x: x[x.argmax(0).long() % x.shape[0]],
    lambda x: torch.stack([x, x * 2], 0).sum(0), lambda x: x.masked_fill(x > 1, 0.0), lambda x: x.mean(), lambda x: x.repeat(2, 1) if x.dim() == 2 else x,
    lambda x: x.sort(0).values, lambda x: torch.sub(x, x.abs(), alpha=0.5), lambda x: x.clamp(-1, 1), lambda x: x.narrow(0, 0, 1) if x.dim() else x,
]
BINARY = [torch.add, torch.mul, torch.sub, torch.maximum, lambda a, b: torch.where(a > b, a, b)]


def program(numbers):
    """A chain of unary ops in which the second argument's sum is mixed in at two places."""
    chain = [numbers.choice(UNARY) for _ in range(numbers.randint(2, 8))]
    mixed = [(numbers.randrange(len(chain)), numbers.choice(BINARY)) for _ in range(2)]
    total = numbers.random() < 0.5

    def run(x, y):
        for i, op in enumerate(chain):
            x = op(x)
            for _, binary in (m for m in mixed if m[0] == i):
                x = binary(x, y.sum())
        return [x, x.sum()] if total else [x]

    return run


def argument(numbers, generator, rows, columns):
    layout = numbers.choice(["plain", "plain", "transposed", "stepped"])
    make = {"plain": lambda: torch.randn(rows, columns, generator=generator), "transposed": lambda: torch.randn(columns, rows, generator=generator).t(),
            "stepped": lambda: torch.randn(rows, 2 * columns, generator=generator)[:, ::2]}[layout]
    return make().mul(4).round()


def twin(tensor):
    return torch.empty_strided(tensor.shape, tensor.stride()).copy_(tensor)


def outcome(function, x, y):
    try:
        return function(x, y)
    except Exception as error:
        return error


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_program(seed):
    numbers, generator = random.Random(seed), torch.Generator()
    generator.manual_seed(seed)
    function = program(numbers)
    made = region(function, 2)
    for _ in range(6):
        rows, columns = numbers.choice([1, 2, 3, 5, 8, 33]), numbers.choice([1, 2, 3, 7, 16])
        x, y = argument(numbers, generator, rows, columns), torch.randn(rows, columns, generator=generator).round()
        mine, theirs = twin(x), twin(x)
        ours, eager = outcome(made, mine, y), outcome(function, theirs, y)
        if isinstance(eager, Exception):
            assert type(ours) is type(eager), (ours, eager)
            continue
        assert not isinstance(ours, Exception), ours
        for a, b in zip(ours, eager):
            assert_same_form(a, b)
            torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-5, equal_nan=True)
        assert torch.equal(mine, theirs)
