"""What the tests of declared dims share: counters, comparisons with eager, a few programs."""

import os

import torch

import escapement


def compiles():
    return escapement.stats()["dynamo"]["compiles"]


def recordings():
    return escapement.stats()["recordings"]


def fallbacks():
    return escapement.stats()["dynamo"]["fallbacks"]


def run(compiled, fn, *args, **kwargs):
    torch.testing.assert_close(compiled(*args, **kwargs), fn(*args, **kwargs), rtol=1e-6, atol=1e-6)


def rand(*sizes):
    return torch.randn(*sizes)


def line_of(fn, offset=1):
    return f"{os.path.basename(fn.__code__.co_filename)}:{fn.__code__.co_firstlineno + offset} in {fn.__name__}"


def dim_lines(report):
    return [line.strip()[len("dim: "):] for line in str(report).splitlines() if line.strip().startswith("dim: ")]


def add(x, y):
    return x + y


def double(x):
    return x * 2


def doubled_and_one(x, y):
    return torch.cat([x, x, y[:1]]) + y
