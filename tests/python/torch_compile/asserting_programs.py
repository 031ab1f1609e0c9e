"""Programs that assert something (test_assertions.py). Not in a file of tests: there `assert` is rewritten."""

import contextlib

import torch

LOG = []


class Own(Exception):
    pass


@contextlib.contextmanager
def watching():
    try:
        yield
    finally:
        LOG.append("left")


def inner(condition):
    assert condition, "a message"


def program(form, condition):
    source = f"def body(x):\n x = x * 1.0\n {form}\n return x * 2\n"
    names = dict(torch=torch, contextlib=contextlib, LOG=LOG, condition=condition, inner=inner, watching=watching, Own=Own)
    exec(source, names)   # noqa: S102
    return names["body"]


def of_a_size(x):
    times = 1
    for limit in (6, 8, 10, 12):
        if x.shape[0] > limit:
            times += 1
    assert x.shape[0] != 2, "not two"
    torch._check_value(x.shape[0] != 3, lambda: "not three")
    return x * times


def known(x, counts):
    n = counts.sum().item()
    torch._check_index(n >= 0, lambda: "below")
    torch._check_index(n <= x.shape[0], lambda: "above")
    return x[:n] * 2


def in_a_row(x):
    assert x.sum().item() > -5, "first"
    y = x * 2
    assert (y > 0).all(), "second"
    torch._check_type(y.max().item() < 8, lambda: "third")
    return y


def switched(x, index):
    with torch.no_grad():
        y = x.index_select(0, index)
    return y + x.sum()


def switched_on(x, index):
    with torch.enable_grad():
        y = x.index_select(0, index)
    return y + x.sum()


def attention_chosen(x, index):
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return x.index_select(0, index)


def no_forward_gradients(x, index):
    with torch.autograd.forward_ad._set_fwd_grad_enabled(False):
        return x.index_select(0, index)


def autocast(x, index):
    with torch.autocast("cpu"):
        return (x @ x).index_select(0, index)


def of_each_row(x, index):
    with torch.no_grad():
        return torch.func.vmap(lambda row: row.index_select(0, index))(x)
