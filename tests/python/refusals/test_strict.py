"""strict=True: what would run eagerly is an error, at every such call, under the name of its reason; what goes on in replay mode is none. One program for each
reason."""

import collections
import math
import threading

import numpy
import pytest
import torch

import escapement

NUMBERS = numpy.ones(3, dtype=numpy.float32)
SHARED, COUNT, FACTOR = [1.0], [0], 0


class Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def matrix(rows):
    return torch.arange(rows * 3, dtype=torch.float32).reshape(rows, 3) + 1


def marked(x):
    x.note = "seen"
    return x + 1


def counting(x):
    COUNT[0] += 1
    return x + COUNT[0]


def rows_one_by_one(x):
    total = torch.zeros(3)
    for i in range(x.shape[0]):
        total = total + x[i]
    return total


def scaled(x):
    return x * FACTOR


def set_factor(value):
    global FACTOR
    FACTOR = value
    return (matrix(2),)


def written_and_read(state, x):
    """Reads another number at each call, behind a write that the caller sees."""
    state.add_(1)
    return x + len(str(state.sum().item()))


# reason -> (the function, arguments of each call, how many of them are served: the last ones are not, each of them)
REASONS = {
    "recording_raised": (lambda x: x * math.ldexp(1.0, x.shape[0]), lambda call: (matrix(2 + call % 2),), 0),
    "unsupported_argument": (lambda x, other: x + 1, lambda call: (matrix(2), object()), 0),
    "unsupported_result": (lambda x: (x * 2, threading.Lock()), lambda call: (matrix(2),), 0),
    "argument_elsewhere": (lambda x, numbers: x + numbers[0] + SHARED[0], lambda call: (matrix(2), SHARED), 0),
    "tensor_attributes": (marked, lambda call: (matrix(2),), 0),
    "too_many_values": (lambda x, n: x * math.ldexp(1.0, n), lambda call: (matrix(2), call), 8),
    "too_many_keys": (lambda x, text: x + len(text), lambda call: (matrix(2), "a" * call), 64),
    "storage_access": (lambda x: x + float(x.numpy().sum()), lambda call: (matrix(2),), 0),
}


@pytest.mark.parametrize("reason", REASONS)
def test_each_reason_is_an_error_at_every_call(reason):
    function, arguments, served = REASONS[reason]
    jitted = escapement.jit(function, strict=True)
    with torch.no_grad():
        for call in range(served):
            jitted(*arguments(call))
        for call in range(served, served + 4):
            with pytest.raises(RuntimeError, match=reason):
                jitted(*arguments(call))


# What goes on in replay mode: none of these calls runs eagerly. The recordings that show it, two of them, say so.
REPLAYED = {
    "too_many_values_elsewhere": (scaled, set_factor, 16),
    "too_many_recordings": (rows_one_by_one, lambda call: (matrix(2 + call),), 8),
    "state_changed": (counting, lambda call: (matrix(2),), 3),
    "made_unseen": (lambda x: torch.from_numpy(NUMBERS) + x, lambda call: (matrix(2),), 0),
    "result_read": (lambda x: torch.tensor((x * 2).tolist()), lambda call: (matrix(2),), 0),
    "too_many_exits": (written_and_read, lambda call: (torch.tensor([call]), matrix(2)), 9),
}


@pytest.mark.parametrize("reason", REPLAYED)
def test_what_goes_on_in_replay_mode_is_no_error(reason):
    function, arguments, served = REPLAYED[reason]
    COUNT[0] = 0
    jitted, raised = escapement.jit(function, strict=True), []
    with torch.no_grad():
        for call in range(served + 6):
            given, again = arguments(call), arguments(call)
            try:
                result = jitted(*given)
            except RuntimeError as error:
                raised.append(str(error))
                assert call < served + 2
                continue
            if function is not counting:
                torch.testing.assert_close(result, function(*again))
    assert len(raised) <= 2 and all(reason in text for text in raised)


def test_gradients_and_modes():
    jitted = escapement.jit(lambda x: x * 2, strict=True)
    for _ in range(2):
        with pytest.raises(escapement.CompileError, match="gradient"):
            jitted(matrix(2).requires_grad_())
        with Mode(), pytest.raises(escapement.CompileError, match="torch_mode"):
            jitted(matrix(2))
    assert torch.equal(jitted(matrix(2)), matrix(2) * 2)


def test_what_strict_does_not_refuse(monkeypatch):
    """Switched off by the user; still being made, by this thread or another one."""
    background = escapement.jit(lambda x: torch.softmax(x * 2, -1), compile="background", strict=True)
    for rows in (2, 3, 4):
        torch.testing.assert_close(background(matrix(rows)), torch.softmax(matrix(rows) * 2, -1))
    monkeypatch.setenv("ESCAPEMENT_DISABLE", "1")
    for mode in ("call", "replay"):
        assert torch.equal(escapement.jit(lambda x: x * 2, mode=mode, strict=True)(matrix(2)), matrix(2) * 2)


def test_errors_of_the_program_are_its_own():
    def checked(x, n):
        if x.shape[0] > 2:
            raise ValueError("too many rows")
        return x * math.ldexp(1.0, n)

    jitted = escapement.jit(checked, strict=True)
    with torch.no_grad():
        for n in (1, 2):
            with pytest.raises(ValueError, match="too many rows"):
                jitted(matrix(3), n)
            assert torch.equal(jitted(matrix(2), n), matrix(2) * 2 ** n)


def test_numbers_that_must_be_constants_are_recorded_at_once():
    """Without strict the call that finds it out runs eagerly; what it has drawn is drawn again, as if for the first time."""
    def noisy(x, n):
        return torch.rand(3) + x * math.ldexp(1.0, n)

    jitted = escapement.jit(noisy, strict=True)
    for n in (1, 2, 1):
        torch.manual_seed(n)
        ours = jitted(matrix(2), n)
        torch.manual_seed(n)
        assert torch.equal(ours, noisy(matrix(2), n))
    assert jitted.info()["eager"] == {} and jitted.info()["recordings"] == 2


def test_a_result_that_is_refused_has_done_what_the_function_does():
    queue = collections.deque()

    def putting(x, items):
        items.append(x + 1)
        return threading.Lock()

    with pytest.raises(escapement.CompileError, match="unsupported_result"):
        escapement.jit(putting, strict=True)(matrix(2), queue)
    assert torch.equal(queue[-1], matrix(2) + 1)


def test_in_replay_mode_operators_that_run_by_themselves_are_no_error():
    operators = [torch.sin, torch.cos, torch.tan, torch.exp, torch.tanh, torch.abs, torch.neg, torch.sqrt, torch.floor, torch.ceil, torch.round, torch.trunc,
                 torch.sign, torch.sigmoid, torch.relu, torch.erf, torch.erfc, torch.expm1, torch.log1p, torch.log2, torch.log10, torch.square, torch.rsqrt,
                 torch.reciprocal, torch.atan, torch.sinh, torch.cosh]
    jitted = escapement.jit(lambda x, n: operators[n](x + 1), mode="replay", strict=True)
    with torch.no_grad():
        for n in range(len(operators)):
            torch.testing.assert_close(jitted(matrix(2), n), operators[n](matrix(2) + 1))
    assert jitted.info()["fallbacks"]["too_many_branches"] == 3


def test_replay_mode_counts_that_it_is_switched_off(monkeypatch):
    escapement.reset()
    jitted = escapement.jit(lambda x: x * 2, mode="replay")
    monkeypatch.setenv("ESCAPEMENT_DISABLE", "1")
    for _ in range(3):
        jitted(matrix(2))
    assert jitted.info()["fallbacks"] == {"disabled": 3} and escapement.stats()["jit"]["eager"] == {"disabled": 3}
    monkeypatch.delenv("ESCAPEMENT_DISABLE")
    asked = escapement.jit(lambda x: x * 2, mode="replay", disable=True)
    asked(matrix(2))
    assert asked.info()["fallbacks"] == {"disabled": 1}
