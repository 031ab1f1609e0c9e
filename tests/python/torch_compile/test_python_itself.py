"""Python in a compiled frame, with sizes that vary: what an expression gives is what it gives outside, whichever part of the language it is of."""

import dataclasses
import functools
import itertools
import linecache
import math

import pytest
import torch

pytestmark = pytest.mark.usefixtures("fresh")


@dataclasses.dataclass
class Pair:
    first: int
    second: float = 1.5


def received(*arguments, **options):
    return arguments, options


def counted(n):
    yield from range(n)
    return n * 2


def delegating(parts):
    result = yield from parts
    yield ("got", result)


def twice(n):
    one = yield from counted(n)
    two = yield from counted(1)
    return one + two


def early(n):
    yield 1
    if n > 3:
        return "early"
    yield 2


EXPRESSIONS = (
    "received(*range(3))", "received(*range(n))", "received(*range(n), 9)", "received(*(range(1, n)), a=n)", "received(*range(0), **{'b': n})", "max(*range(n + 2))", "received(*[1, n])",
    "received(*x.shape)", "received(*map(str, [n]))", "received(*(i for i in [n]))", "received(*{n: 1})", "received(*reversed([n, 1]))", "received(*slice(1, n).indices(3))",
    "list(range(*x.shape))", "[*range(n)]", "functools.partial(received, n)(*range(2))", "(lambda *a: a)(*range(n))", "torch.ones(*range(1, 3)).sum().item()",
    "list(delegating(counted(n)))", "list(delegating([n]))", "list(delegating(early(n)))", "list(delegating(twice(n)))", "list(delegating(range(n)))", "list(delegating(delegating(counted(n))))",
    "Pair(n).second + n", "dataclasses.asdict(Pair(n))", "list(itertools.islice(itertools.cycle([n, 1]), 5))", "list(itertools.accumulate([n, 1, 2]))", "functools.reduce(max, [n, 3])",
    "divmod(n, 3)", "f'{n:04d} {n / 3:.2f}'", "'abcdefgh'[n:]", "[1, 2, 3, 4, 5, 6, 7, 8][-n:]", "{n: 1}.get(4)", "math.comb(n + 2, 2)", "n.bit_length()", "sorted([n, 3, 1])",
)


def program(expression):
    text = f"def body(x):\n    n = x.shape[0]\n    return x * 2, {expression}\n"
    file = f"<an expression {len(linecache.cache)}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    names = {**globals()}
    exec(compile(text, file, "exec"), names)   # noqa: S102
    return names["body"]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression(expression):
    body = program(expression)
    compiled = torch.compile(body, backend="escapement")
    for size in (4, 2, 7, 1, 0):
        x = torch.ones(size, 3)
        ours, eager = compiled(x), body(x)
        assert torch.equal(ours[0], eager[0]) and ours[1] == eager[1] and type(ours[1]) is type(eager[1]), (size, ours[1], eager[1])
