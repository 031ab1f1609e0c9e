"""What Python's library asks of a number beyond its value: abstract classes of numbers, single dispatch, the statistics module, which makes numbers by
`type(n)(value)`. Sizes, numbers that were read, and arguments; eager's answer at every call. (`isinstance(n, numbers.Number)` said no.)"""
import bisect
import collections
import datetime
import decimal
import fractions
import functools
import itertools
import json
import math
import numbers
import statistics
import struct
import typing

import pytest
import torch

import escapement


@functools.singledispatch
def dispatched(value):
    return "object"


@dispatched.register
def _(value: int):
    return "int"


@dispatched.register
def _(value: numbers.Real):
    return "real"


def matched(value):
    match value:
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"


KINDS = {
    "complex": lambda n: isinstance(n, numbers.Complex), "real": lambda n: isinstance(n, numbers.Real), "rational": lambda n: isinstance(n, numbers.Rational),
    "integral": lambda n: isinstance(n, numbers.Integral), "number": lambda n: isinstance(n, numbers.Number), "several": lambda n: isinstance(n, (tuple, numbers.Number)),
    "union": lambda n: isinstance(n, int | float), "index": lambda n: isinstance(n, typing.SupportsIndex), "hashable": lambda n: isinstance(n, collections.abc.Hashable),
    "iterable": lambda n: isinstance(n, collections.abc.Iterable), "derived": lambda n: issubclass(n.__class__, numbers.Integral),
    "dispatched": dispatched, "matched": matched, "made": lambda n: (type(n)(), type(n)(7), type(n)("12"), type(n)(n), type(n)(n + 1)),
}
SOURCES = {
    "size": lambda x, n: x.shape[0], "whole": lambda x, n: x.to(torch.int64).sum().item(), "float": lambda x, n: x.mean().item(),
    "argument": lambda x, n: n, "float argument": lambda x, n: n + 0.5,
}
LIBRARY = {
    "mean": statistics.mean, "fmean": statistics.fmean, "harmonic": statistics.harmonic_mean, "median": statistics.median, "mode": statistics.mode,
    "deviation": statistics.stdev, "variance": statistics.pvariance, "quantiles": lambda v: statistics.quantiles(v, n=4),
    "fraction": lambda v: float(sum(fractions.Fraction(1, n) for n in v)), "decimal": lambda v: str(decimal.Decimal(v[0]) / decimal.Decimal(v[1])),
    "duration": lambda v: str(datetime.timedelta(seconds=v[0])), "packed": lambda v: struct.pack("qd", v[0], v[1]), "text": json.dumps,
    "searched": lambda v: bisect.bisect([1, 3, 5, 7], v[0]), "counted": lambda v: dict(collections.Counter(v)), "summed": math.fsum, "product": math.prod,
    "divisor": lambda v: math.gcd(*v), "chosen": lambda v: math.comb(v[3], 2), "distance": lambda v: math.hypot(*v), "complex": lambda v: complex(v[0], v[1]),
    "accumulated": lambda v: list(itertools.accumulate(v)), "repeated": lambda v: list(itertools.repeat(1, v[0])), "bytes": bytes, "base": lambda v: hex(v[0]) + bin(v[1]),
    "converted": lambda v: int.to_bytes(v[0], 4, "big"), "rounded": lambda v: round(v[0] / 3, v[1] - v[0] + 1), "ratio": lambda v: v[0].as_integer_ratio(),
}


def compare(answer):
    compiled = escapement.jit(lambda x, n: (x * 2, answer(x, n)))
    with torch.no_grad():
        for n in (3, 4, 5, 6):
            x = torch.arange(1.0, 2 * n + 1).reshape(n, 2)
            got, wanted = compiled(x, n)[1], answer(x, n)
            assert got == wanted and type(got) is type(wanted), (n, got, wanted)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind, source):
    compare(lambda x, n: KINDS[kind](SOURCES[source](x, n)))


@pytest.mark.parametrize("function", LIBRARY)
def test_library(function):
    compare(lambda x, n: LIBRARY[function]([x.shape[0], x.shape[0] + 1, x.shape[0] + 3, x.shape[0] * 2]))
