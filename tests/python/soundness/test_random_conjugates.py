"""Random programs of complex tensors that are conjugated, viewed and written: what shows is eager's, bits and shared memory too.
SEED and COUNT in the environment make more of them."""

import os
import random

import pytest
import torch

import escapement

STEPS = (
    "{r} = {a}.conj()", "{r} = {a}.t()", "{r} = {a}[:1]", "{r} = {a}[:, ::2]", "{r} = {a} * 2", "{r} = {a} + {b}", "{r} = {a}.clone()", "{r} = {a}.mH", "{a}.mul_(2j)", "{a}[:1] = 3j",
    "{a}.copy_({b}.conj())", "{r} = {a}.resolve_conj()", "{r} = torch.complex({a}.real, {a}.imag)", "{r} = {a}.reshape(-1)[:{a}.numel()].view({a}.shape)", "{r} = {a}.flip(0)",
    "{r} = {a} if {a}.is_conj() else {a} + 1", "{a}.imag.add_(1)", "{r} = torch.cat([{a}, {b}.conj()])", "{r} = {a} @ {b}.mH", "{r} = {a}.contiguous()", "{r} = {a}.detach()",
    "{r} = {a}.conj().imag.neg() + 0j", "{r} = {a}.expand_as({a})", "{a}.zero_()", "{r} = {a}.abs() + 0j", "{r} = {a}.conj_physical()", "{r} = {a}.adjoint().conj()", "{a}.conj_physical_()",
    "{r} = {a}.transpose(0, 1).conj()", "{r} = {a}.squeeze(0).view({a}.shape)", "{r} = torch.where({a}.real > 0, {a}, {b}.conj())", "{r} = {a}.diagonal().sum() + {a}",
)
SHAPES = ((3, 4), (4, 4), (1, 3), (2, 2), (3, 4), (5, 1), (4, 4))


def source(seed):
    choose = random.Random(seed)
    names, lines = ["z"], ["z = torch.complex(x, x * 2 + 1)" if choose.random() < 0.6 else "z = c"]
    for number in range(choose.randrange(2, 7)):
        step = choose.choice(STEPS)
        lines.append(step.format(r=f"v{number}", a=choose.choice(names), b=choose.choice(names)))
        if "{r}" in step:
            names.append(f"v{number}")
    last = choose.choice(names)
    lines.append(f"return ({last},)" if choose.random() < 0.4 else f"return {last}.abs(), {choose.choice(names)}.imag + 1")
    return "def f(x, c):\n" + "".join(f"    {line}\n" for line in lines)


def outcome(f, x, c):
    try:
        return f(x, c)
    except Exception as error:
        return type(error)


def check(seed):
    text, scope = source(seed), {"torch": torch}
    exec(text, scope)
    compiled = escapement.jit(scope["f"])
    for shape in SHAPES:
        torch.manual_seed(seed)
        x, c = torch.randn(shape), torch.complex(torch.randn(shape), torch.randn(shape))
        of_ours = c.clone()
        expected, found = outcome(scope["f"], x, c), outcome(compiled, x.clone(), of_ours)
        if isinstance(expected, type) or isinstance(found, type):
            assert expected is found, f"{text}at {shape} (seed {seed}): {found}, not {expected}"
            continue
        for ours, eager in zip((*found, of_ours), (*expected, c), strict=True):
            torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-5, equal_nan=True, msg=lambda difference: f"{text}at {shape} (seed {seed}): {difference}")
            assert (ours.is_conj(), ours.is_neg()) == (eager.is_conj(), eager.is_neg()), f"{text}at {shape} (seed {seed})"
        assert (found[0].data_ptr() == of_ours.data_ptr()) == (expected[0].data_ptr() == c.data_ptr()), f"{text}at {shape} (seed {seed})"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", range(int(os.environ.get("SEED", 0)), int(os.environ.get("SEED", 0)) + int(os.environ.get("COUNT", 200)), 20))
def test_as_eager(start):
    for seed in range(start, start + 20):
        check(seed)
