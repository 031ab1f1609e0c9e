"""What the program's code names of a library, and what somebody else puts there between calls: functions of torch, of Python's own library, methods of tensors, `forward`
of torch's modules, flags that torch's functions read. Whatever is called then is what eager calls, and what was put back is served by what was recorded first.
"""

import contextlib
import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from answered import outcome
from torch import nn

import escapement

pytestmark = pytest.mark.usefixtures("fresh")

linear, stacked = nn.Linear(3, 3), nn.Sequential(nn.Softplus(), nn.Linear(3, 3))
normal = torch.distributions.Normal


@contextlib.contextmanager
def put(owner, name, value):
    held = vars(owner).get(name, contextlib)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if held is contextlib:
            delattr(owner, name)
        else:
            setattr(owner, name, held)


@contextlib.contextmanager
def told(tell, other, usual):
    tell(other)
    try:
        yield
    finally:
        tell(usual)


def others(x):
    return torch.nn.functional.gelu(x) + torch.special.expit(x)


# (function, what is otherwise for a while)
CASES = {
    "F": (lambda x: F.softsign(x), lambda: put(F, "softsign", lambda x: x * 9)),
    "torch.nn.functional": (lambda x: torch.nn.functional.softsign(x), lambda: put(F, "softsign", lambda x: x * 9)),
    "torch.nn.functional beside another": (lambda x: others(x) + torch.nn.functional.softsign(x), lambda: put(F, "softsign", lambda x: x * 9)),
    "torch": (lambda x: torch.selu(x), lambda: put(torch, "selu", lambda x: x * 9)),
    "torch.special": (lambda x: torch.special.expit(x), lambda: put(torch.special, "expit", lambda x: x * 9)),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x), lambda: put(F, "scaled_dot_product_attention", lambda q, k, v: q * 9)),
    "method of tensors": (lambda x: x.sinh(), lambda: put(torch.Tensor, "sinh", lambda x: x * 9)),
    "Python's method of tensors": (lambda x: x.norm(), lambda: put(torch.Tensor, "norm", lambda x: x.sum() * 9)),
    "math": (lambda x: x * math.pi, lambda: put(math, "pi", 3.0)),
    "function of math": (lambda x: x * math.floor(2.5), lambda: put(math, "floor", lambda x: 9)),
    "json": (lambda x: x * len(json.dumps([1])), lambda: put(json, "dumps", lambda x: "123456789")),
    "numpy": (lambda x: x * float(np.tan(1.0)), lambda: put(np, "tan", lambda x: 9.0)),
    "module": (lambda x: linear(x), lambda: put(nn.Linear, "forward", lambda self, x: F.linear(x, self.weight) * 9)),
    "module in a module": (lambda x: stacked(x), lambda: put(nn.Softplus, "forward", lambda self, x: x * 9)),
    "container of modules": (lambda x: stacked(x), lambda: put(nn.Sequential, "forward", lambda self, x: x * 9)),
    "class": (lambda x: nn.functional.pad(x, (1, 1)), lambda: put(F, "pad", lambda x, by: x * 9)),
    "attribute of a class": (lambda x: x * 2 if normal._validate_args else x * 9, lambda: told(normal.set_default_validate_args, False, True)),
    "dtype": (lambda x: x.to(torch.half).float(), lambda: put(torch, "half", torch.bfloat16)),
    "flag of a function": (lambda x: x * (2 if torch.backends.mha.get_fastpath_enabled() else 9), lambda: told(torch.backends.mha.set_fastpath_enabled, False, True)),
    "flag of conversions": (lambda x: x * (9 if torch.__future__.get_swap_module_params_on_conversion() else 2),
                            lambda: told(torch.__future__.set_swap_module_params_on_conversion, True, False)),
    "dtype of autocast": (lambda x: x.to(torch.get_autocast_dtype("cpu")).float(), lambda: told(lambda dtype: torch.set_autocast_dtype("cpu", dtype), torch.float16, torch.bfloat16)),
    "cache of autocast": (lambda x: x * (2 if torch.is_autocast_cache_enabled() else 9), lambda: told(torch.set_autocast_cache_enabled, False, True)),
}
READ_ANEW = {"dtype of autocast", "cache of autocast"}   # functions that ask go on in replay mode


@pytest.mark.parametrize("mode", ("call", "replay"))
@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_as_eager(name, mode):
    function, otherwise = CASES[name]
    fast = escapement.jit(function, mode=mode)

    def compare():
        for rows in (2, 5, 1):
            x = torch.linspace(-1.3, 1.7, rows * 3).view(rows, 3)
            torch.testing.assert_close(outcome(fast, x), outcome(function, x))

    for _ in range(2):
        compare()
        with otherwise():
            compare()
    if mode == "call" and name not in READ_ANEW:
        assert fast.info()["recordings"] <= 3 and not fast.info()["eager"]


@torch.no_grad()
def test_what_the_code_does_not_name_is_no_recording():
    fast = escapement.jit(lambda x: F.softsign(x) + 1)
    fast(torch.ones(3))
    with put(F, "gelu", None), put(torch, "selu", None), put(torch.Tensor, "sinh", None):
        fast(torch.ones(5))
    assert fast.info()["recordings"] == 1
