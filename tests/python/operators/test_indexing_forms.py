"""Every form of x[...], read and written, of tensors with sizes 0, 1 and more: recorded at one size and called at others."""

import warnings

import numpy as np
import pytest
import torch

from answered import Counted

t = torch.tensor
FORMS = {
    "0": lambda x: 0, "-1": lambda x: -1, "n-1": lambda x: x.shape[0] - 1, "-n": lambda x: -x.shape[0], "n": lambda x: x.shape[0], "n//2": lambda x: x.shape[0] // 2,
    ":": lambda x: slice(None), ":-1": lambda x: slice(None, -1), "-2:": lambda x: slice(-2, None), ":100": lambda x: slice(None, 100), "3:1": lambda x: slice(3, 1),
    "1::3": lambda x: slice(1, None, 3), ":n-1": lambda x: slice(None, x.shape[0] - 1), "n-2:": lambda x: slice(x.shape[0] - 2, None),
    ":n//2": lambda x: slice(None, x.shape[0] // 2), "::n": lambda x: slice(None, None, x.shape[0]), "n-4:n-1": lambda x: slice(x.shape[0] - 4, x.shape[0] - 1),
    "::-1": lambda x: slice(None, None, -1), "tensor bound": lambda x: slice(t(1), t(3)), "numpy bound": lambda x: slice(np.int32(1), np.int64(3)),
    "None": lambda x: None, "...": lambda x: ..., "True": lambda x: True, "False": lambda x: False, "()": lambda x: (), "[]": lambda x: [], "[0]": lambda x: [0],
    "[0, -1]": lambda x: [0, -1], "[n-1]": lambda x: [x.shape[0] - 1], "[[0]]": lambda x: [[0]], "[True]": lambda x: [True], "list of n": lambda x: list(range(x.shape[0])),
    "t0": lambda x: t(0), "t0 uint8": lambda x: t(1, dtype=torch.uint8), "t0 int32": lambda x: t(1, dtype=torch.int32), "t0 bool": lambda x: t(True), "t0 float": lambda x: t(0.),
    "t1": lambda x: t([0, 0]), "t1 int32": lambda x: t([0, -1], dtype=torch.int32), "t1 of nothing": lambda x: t([], dtype=torch.long), "t1 of n": lambda x: torch.arange(x.shape[0]),
    "t1 out of range": lambda x: t([3]), "t2": lambda x: t([[0, 0], [0, 0]]), "mask": lambda x: x > 0, "mask of rows": lambda x: torch.arange(x.shape[0]) % 2 == 0,
    "mask uint8": lambda x: torch.ones(x.shape[0], dtype=torch.uint8), "mask of 3": lambda x: torch.ones(3, dtype=torch.bool), "array": lambda x: np.arange(x.shape[0]),
    "t, t": lambda x: (t([0]), t([0])), "where": lambda x: torch.where(x > 0), "None, 0": lambda x: (None, 0), "..., 0": lambda x: (..., 0), "True, t": lambda x: (True, t([0])),
    "False, :": lambda x: (False, slice(None)), "mask, :1": lambda x: (torch.arange(x.shape[0]) % 2 == 0, slice(None, 1)), "t, None, t": lambda x: (t([0]), None, t([0])),
    ":, t": lambda x: (slice(None), t([0])), "0, t": lambda x: (0, t([0])), "..., [0]": lambda x: (..., [0]), "too many": lambda x: (0, 0, 0), "float": lambda x: 1.0, "text": lambda x: "a",
}


def get(x, index):
    return x[index]


def added(x, index):
    return x[index] + 1


def put(value):
    def program(x, index):
        x[index] = value(x, index)
        return x * 1

    return program


def grow(x, index):
    x[index] += 1
    return x * 1


USES = {
    "get": get, "added": added, "put number": put(lambda x, i: 1.5), "put size": put(lambda x, i: x.shape[0]), "put tensor": put(lambda x, i: t(2.)),
    "put row": put(lambda x, i: x[0]), "put itself": put(lambda x, i: x[i] * 2), "put wrong": put(lambda x, i: torch.ones(7)), "put sum": put(lambda x, i: x.sum()), "grow": grow,
}
ORDERS = ((4, 1, 0, 5), (1, 3, 0))
# The reasons for which a call that came before may run eagerly. In replay mode how tensors without elements lie is ATen's, and what may be out of
# range is checked at once.
# np.arange of a symbolic size; one row written into itself, of which ATen compares the strides of the single axis, too.
EAGER = {"array": "made_unseen ran_at_once", ":n//2": "recorder_refused"}
REASONS = {"call": lambda form: {EAGER.get(form)}, "replay": lambda form: {"call_layout eager_segments", "call_layout eager_segments ran_at_once"}}


def outcome(function, n):
    torch.manual_seed(n)
    x = torch.randn(n, n) * 3
    try:
        return function(x), x
    except Exception as error:
        return type(error).__name__, x


def same(a, b):
    if isinstance(a, str) or isinstance(b, str):
        return type(a) is type(b) and a == b
    return a.dtype == b.dtype and a.shape == b.shape and torch.allclose(a, b, equal_nan=True)


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_index(form, mode):
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for use, program in USES.items():
            def function(x):
                return program(x, FORMS[form](x))

            for order in ORDERS:
                compiled = Counted(function, mode=mode)
                for n in compiled.twice(order):
                    wanted, found = outcome(function, n), outcome(compiled, n)
                    assert all(map(same, wanted, found)), (use, order, n, wanted, found)
                assert not any("internal_error" in region.get("fallbacks", {}) for region in compiled.info().get("regions", [])), (use, order)
                compiled.expect(*REASONS[mode](form))
