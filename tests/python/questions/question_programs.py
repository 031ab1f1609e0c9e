"""How a row of host_questions.py becomes a program: what is asked of, the sizes that calls bring, and programs that return the answer or
branch on it. `Question.ask` is the row's expression as a function of what `Question.of` names."""

import collections
import copy
import functools
import io
import itertools
import math
import operator
import pickle

import torch

Question = collections.namedtuple("Question", "name how ask of")


# --- what is asked of

SHAPES = {
    "from primes": ((5, 7), (1, 7), (5, 1), (1, 1), (0, 7), (5, 0), (2, 3), (13, 2)),
    "from one": ((1, 7), (5, 7), (1, 1), (2, 3), (5, 1), (0, 1)),
    "from nothing": ((0, 3), (3, 3), (1, 0), (5, 2), (1, 1), (0, 0)),
    "from a column": ((5, 1), (1, 5), (7, 2), (1, 1), (3, 0), (2, 1)),
}
SUBJECTS = {
    "argument": lambda x: x,
    "transposed": lambda x: x.t(),
    "a column": lambda x: x[:, :1],
    "a row": lambda x: x[:1],
    "every second": lambda x: x[:, ::2],
    "sum": lambda x: x + 1,
    "sum of transposed": lambda x: x.t() + 1,
    "copy of transposed": lambda x: x.t().contiguous(),
    "broadcast": lambda x: x[:, :1].expand(-1, 3),
    "flattened": lambda x: x.t().reshape(-1),
    "squeezed": lambda x: x.squeeze(0),
    "reduced": lambda x: x.sum(0),
    "image": lambda x: torch.stack([x, x])[None],
    "channels last": lambda x: torch.stack([x, x])[None].contiguous(memory_format=torch.channels_last),
    "permuted": lambda x: torch.stack([x, x])[None].permute(0, 3, 1, 2),
}


def given(shape, dtype=torch.float32):
    return torch.arange(1, 1 + math.prod(shape), dtype=dtype).view(shape)


# --- programs of a question, for a tensor x of two axes

def arguments_of(kind, subject):
    """What the row's expression is asked of, made of the function's arguments."""
    return {
        "x": lambda x, n, f: (subject(x),),
        "ab": lambda x, n, f: (x.shape[0], x.shape[1]),
        "s": lambda x, n, f: (x.shape,),
        "vkt": lambda x, n, f: ((x.sum() / 4).item(), (x > 3).sum().item(), (x > 3).any().item()),
        "nf": lambda x, n, f: (n, f),
    }[kind]


def returning(question, subject=SUBJECTS["argument"]):
    """A tensor, and the answer."""
    ask, arguments = question.ask, arguments_of(question.of, subject)

    def program(x, n=3, f=1.5):
        return x * 2, ask(*arguments(x, n, f))

    return program


def branching(question, pivot, subject=SUBJECTS["argument"]):
    """Another tensor where the answer is `pivot`."""
    ask, arguments = question.ask, arguments_of(question.of, subject)

    def program(x, n=3, f=1.5):
        return x + 1 if ask(*arguments(x, n, f)) == pivot else x - 1

    return program


# --- the rows

def attempt(function, *args):
    """The answer, or the error's name: what raises must raise the same."""
    try:
        return function(*args)
    except (TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError, RuntimeError) as error:
        return type(error).__name__


NAMES = {"torch": torch, "math": math, "operator": operator, "copy": copy, "pickle": pickle, "io": io, "functools": functools,
         "itertools": itertools, "attempt": attempt}


def rows(of, text):
    for line in text.strip().splitlines():
        how, name = line.strip().split(None, 1)
        yield Question(name, how, eval(compile(f"lambda {', '.join(of)}: {name}", __file__, "eval"), dict(NAMES)), of)


# --- what calls bring

def data():
    """Tensors of several values, for numbers that are read from them."""
    base = given((2, 3))
    return [base, base * 0, -base, base + .5, base * 1e10, base * math.nan, base / 0, base * -0.0, base * 1e-3, given((3, 3)), given((0, 3)),
            given((1, 1)), given((5, 7))]


NUMBERS_GIVEN = ((3, 1.5), (1, 1.0), (-2, -0.5), (0, 0.0), (7, 2.0), (4, math.inf), (11, math.nan), (5, 1e20), (2 ** 40, 0.1), (-7, 7.0),
                 (2 ** 63, -2.5), (9, 0.25))
SMALL_ONLY = ("range", "[0] *", "factorial", "abcdef", "n << 1", "pow, 2, n", "pow, f")   # with large numbers these take memory or time


def arguments(question, order):
    """The arguments of each call."""
    if question.of == "vkt":
        return [(x,) for x in data()]
    if question.of == "nf":
        small = any(word in question.name for word in SMALL_ONLY)
        return [(given((2, 3)), n, f) for n, f in NUMBERS_GIVEN if not small or abs(n) < 100]
    return [(given(shape),) for shape in SHAPES[order]]
