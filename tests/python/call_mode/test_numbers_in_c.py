"""Numbers of a recording that reach code in C, which takes no subclass for an int: what it raises is not what the program's own handlers decide by,
json and NumPy read the value, and products of sizes stay expressions."""

import contextlib
import datetime
import decimal
import json
import math
import sys

import numpy as np
import pytest
import torch

import escapement


def decimal_caught(x):
    try:
        return x * float(decimal.Decimal(x.shape[0]))
    except TypeError:
        return -x


def decimal_caught_by_all(x):
    try:
        return x * float(decimal.Decimal(x.shape[0]))
    except Exception:
        return -x


def timedelta_caught(x):
    try:
        return x * datetime.timedelta(seconds=x.sum().item()).total_seconds()
    except (TypeError, ValueError):
        return -x


def ldexp_suppressed(x):
    k = 0
    with contextlib.suppress(TypeError):
        k = math.ldexp(1.0, x.shape[0])
    return x * k


def caught_in_a_callee(x):
    return helper(x.shape[0]) * x


def helper(n):
    try:
        return math.ldexp(1.0, n)
    except TypeError:
        return 0.0


def caught_in_a_function_inside(x):
    def inside():
        try:
            return math.ldexp(1.0, x.shape[0])
        except TypeError:
            return 0.0

    return x * sum(inside() for _ in range(2))


class Scaler:
    def __call__(self, x):
        return x * self.factor(x.shape[0])

    def factor(self, n):
        try:
            return math.ldexp(1.0, n)
        except TypeError:
            return 0.0


def caught_in_a_method(x):
    return Scaler()(x)


def caught_for_good(x):
    """An error that eager has, too."""
    try:
        return x * len(x.shape[0])
    except TypeError:
        return x * x.shape[0]


def json_plain(x):
    return x * 2, json.dumps({"n": x.shape[0], "v": [x.sum().item()]})


def json_indent(x):
    return x * 2, json.dumps({"n": x.shape[0], x.shape[0]: [tuple(x.shape)]}, indent=1, sort_keys=False)


def json_default(x):
    return x * 2, json.dumps({"step": 3, "loss": x.sum().item(), "n": x.shape[0]}, default=str)


def json_default_makes_numbers(x):
    return x * 2, json.dumps({"c": complex}, default=lambda kind: {"name": kind.__name__, "n": x.shape[0]}, indent=2)


class Encoder(json.JSONEncoder):
    def default(self, value):
        return ["own", str(value)]


def json_own_encoder(x):
    return x * 2, json.dumps({"c": complex, "n": x.shape[0]}, cls=Encoder)


def json_circular(x):
    loop = [x.shape[0]]
    loop.append(loop)
    try:
        json.dumps(loop)
    except ValueError as error:
        return x * 2, str(error)
    return x, ""


def array_of_sizes(x):
    a = np.array([x.shape[0], 1])
    return x * (2 if a.dtype == np.int64 else 7)


def full_of_sizes(x):
    return x * (2 if np.full(3, x.shape[0]).dtype.kind == "i" else 7)


def arange_times_item(x):
    return x * float((np.arange(x.shape[0]) * x.sum().item()).sum()), str((np.arange(2) * x.sum().item()).dtype)


def mean_of_numbers(x):
    m = np.mean([x.shape[0], 2.0])
    return x * float(m), type(m).__name__


def product(x):
    return x.new_zeros(int(np.prod(x.shape)) + 1), x.reshape(np.prod(x.shape))


FUNCTIONS = [decimal_caught, decimal_caught_by_all, timedelta_caught, ldexp_suppressed, caught_in_a_callee, caught_for_good,
             caught_in_a_function_inside, caught_in_a_method, json_plain, json_indent,
             json_default, json_default_makes_numbers, json_own_encoder, json_circular, array_of_sizes, full_of_sizes, arange_times_item, mean_of_numbers,
             product]


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_as_eager(function, mode):
    jitted = escapement.jit(function, mode=mode)
    for n in (2, 3, 2, 5, 1, 4, 3):
        x = torch.arange(1.0, n + 1)
        ours, theirs = jitted(x), function(x)
        ours, theirs = (v if isinstance(v, tuple) else (v,) for v in (ours, theirs))
        for mine, other in zip(ours, theirs, strict=True):
            assert torch.equal(mine, other) if isinstance(other, torch.Tensor) else mine == other, (n, mine, other)


def test_nothing_stays_behind():
    escapement.jit(ldexp_suppressed)(torch.ones(2))
    assert sys.gettrace() is None and json.JSONEncoder.iterencode.__module__ == "json.encoder" and np.prod.__module__ == "numpy"


class Tracer:
    """As debuggers and coverage tools written in Python trace: all events of a frame, or only that it is called."""

    def __init__(self, lines, code):
        self.lines, self.code, self.seen = lines, code, set()

    def __call__(self, frame, event, argument):
        if frame.f_code is self.code:
            self.seen.add((event, frame.f_lineno))
        return self if self.lines else None


class CoverageTool:
    """Traces in C, and puts itself back whenever somebody else calls it."""

    def __init__(self, code):
        self.tool = pytest.importorskip("coverage").Coverage(data_file=None, include=[code.co_filename])

    def __enter__(self):
        self.tool.start()
        return self

    def __exit__(self, *_):
        self.tool.stop()


@contextlib.contextmanager
def traced(tracer):
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        yield tracer
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)


TRACERS = {"lines": lambda code: traced(Tracer(True, code)), "calls": lambda code: traced(Tracer(False, code)), "coverage": CoverageTool}


@pytest.mark.parametrize("tracer", TRACERS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_as_eager_under_a_tracer(function, tracer):
    jitted = escapement.jit(function)
    with TRACERS[tracer](function.__code__):
        for n in (2, 3, 1):
            x = torch.arange(1.0, n + 1)
            ours, theirs = jitted(x), function(x)
            assert all(map(same, *(v if isinstance(v, tuple) else (v,) for v in (ours, theirs)))), n


def same(ours, theirs):
    return torch.equal(ours, theirs) if isinstance(theirs, torch.Tensor) else ours == theirs


@pytest.mark.parametrize("lines", [True, False])
def test_who_traces_sees_what_eager_does(lines):
    def function(x):
        try:
            n = x.shape[0]
            y = x * n
        except TypeError:
            y = x
        return y

    seen = []
    for called in (function, escapement.jit(function)):
        with traced(Tracer(lines, function.__code__)) as tracer:
            called(torch.ones(3))
        seen.append(tracer.seen)
    assert seen[0] == seen[1] and len(seen[0]) == (6 if lines else 1)


def test_handlers_that_nobody_needs_cost_no_recording():
    def function(x):
        try:
            with torch.no_grad():
                return x.reshape(x.shape[0], -1) * 2
        except TypeError:
            return x

    jitted = escapement.jit(function)
    for n in (2, 3, 1, 5):
        assert torch.equal(jitted(torch.ones(n, 2)), torch.full((n, 2), 2.0))
    assert jitted.info()["recordings"] == 1 and not jitted.info()["eager"]


def fails(x):
    if x.sum() > 3:
        raise AssertionError(f"big {x.sum().item():.1f}")   # pytest's own would name objects
    return x


def fails_after_asking(x):
    decimal.Decimal(x.shape[0])
    raise KeyError(sys.exc_info()[0])


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("function", [fails, fails_after_asking])
def test_an_error_has_eagers_context(function, mode):
    jitted = escapement.jit(function, mode=mode)
    for n in (5, 4, 6, 5):
        with pytest.raises((AssertionError, KeyError)) as ours:
            jitted(torch.ones(n))
        with pytest.raises((AssertionError, KeyError)) as theirs:
            function(torch.ones(n))
        assert ours.value.__context__ is None is theirs.value.__context__ and ours.value.args == theirs.value.args
