"""Random arithmetic on sizes, through floats and back, as the host does it: the numbers are Python's, whatever a recording was made with.
SEED and COUNT in the environment make more of them."""

import math
import os
import random

import pytest
import torch

import escapement

SHAPES = ((4, 7), (5, 3), (1, 1), (2, 9), (10, 10), (0, 3), (13, 2), (64, 31), (3, 0), (100, 7))
NUMBERS = (0.7, 0.5, 1.5, 2, 3, 0.1, -0.3, 0.29, 1 / 3, 10, 1.0, 0.25, 1e-3, -2)
SCOPE = {"math": math, "min": min, "max": max, "abs": abs, "round": round}


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, *choices):
        return self.random.choice(choices)

    def real(self, depth):
        if depth == 0:
            return self.pick("h", "w", repr(self.pick(*NUMBERS)))
        a, b = self.real(depth - 1), self.pick(self.real(depth - 1), repr(self.pick(*NUMBERS)))
        return self.pick(f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} / {b})", f"({a}) ** 2", f"abs({a}) ** 0.5", f"min({a}, {b})", f"max({a}, {b})", f"(-{a})",
                         f"({a} * 0.7)", self.whole(depth - 1))

    def whole(self, depth):
        a = self.real(depth)
        return self.pick(f"math.floor({a})", f"math.ceil({a})", f"math.trunc({a})", f"round({a})", f"(math.floor({a}) // 3)", f"(math.ceil({a}) % 4)", f"(h + round({a}))")

    def truth(self, depth):
        return f"({self.real(depth)} {self.pick('<', '<=', '>', '>=', '==', '!=')} {self.real(depth)})"

    def program(self):
        number, other = self.whole(self.random.randrange(1, 4)), self.real(2)
        kind = self.random.randrange(4)
        if kind == 0:
            return f"x.new_ones(abs({number}) % 50 + 1).cumsum(0)"
        if kind == 1:
            return f"x * 2 if {self.truth(2)} else x * 3"
        return f"x + ({number})" if kind == 2 else f"x * ({other})"


def outcome(f, x):
    try:
        return f(x)
    except Exception as error:
        return type(error)


def check(seed):
    text = Maker(seed).program()
    f = eval(f"lambda x: (lambda h, w: {text})(x.shape[0], x.shape[1])", dict(SCOPE))
    compiled = escapement.jit(f)
    shapes = random.Random(seed).sample(SHAPES, len(SHAPES))
    for shape in (*shapes, *shapes):
        x = torch.arange(float(math.prod(shape)), dtype=torch.float64).reshape(shape) + 1
        expected, found = outcome(f, x), outcome(compiled, x)
        if isinstance(expected, type) or isinstance(found, type):
            assert expected is found, f"{text} at {shape} (seed {seed}): {found}, not {expected}"
        else:
            torch.testing.assert_close(found, expected, rtol=1e-14, atol=0, equal_nan=True, msg=lambda difference: f"{text} at {shape} (seed {seed}): {difference}")


@pytest.mark.parametrize("start", range(int(os.environ.get("SEED", 0)), int(os.environ.get("SEED", 0)) + int(os.environ.get("COUNT", 160)), 20))
def test_as_python(start):
    for seed in range(start, start + 20):
        check(seed)
