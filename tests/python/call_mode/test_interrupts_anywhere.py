"""A signal's handler raises (Ctrl-C, a time limit) while a call is recorded or served: at every place of our Python code where CPython looks for
signals, each in turn. Afterwards nothing of Python's or torch's is left replaced, and the function and others are as eager.

All places take ten minutes; CI takes every STRIDE-th, begun elsewhere in each program. ESCAPEMENT_STRIDE=1 takes all.
"""

import dis
import functools
import json
import os
import signal
import sys
import warnings

import pytest
import torch

import escapement
from escapement.core import core
from escapement.tracer import jit_entry

OURS = os.path.dirname(escapement.__file__)
STRIDE = int(os.environ.get("ESCAPEMENT_STRIDE", 67))
LOOKS = {"RESUME", "CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD"}   # instructions after which CPython looks
pytestmark = pytest.mark.skipif(sys.version_info[:2] not in ((3, 11), (3, 12)), reason="these names of instructions")


class Interrupted(BaseException):
    pass


@functools.cache
def instructions(code):
    return {one.offset: one.opname for one in dis.get_instructions(code)}


@functools.cache
def handlers(code):
    return dis._parse_exception_table(code)


def handler_at(code, offset):
    return next((entry.target for entry in handlers(code) if entry.start <= offset < entry.end), None)


class Interrupter:
    """Raises at the `number`-th place, and says where that was."""

    def __init__(self, number):
        self.number, self.seen, self.where, self.last = number, 0, None, {}

    def called(self, frame, event, _):
        if self.where or not frame.f_code.co_filename.startswith(OURS):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self.stepped

    def stepped(self, frame, event, _):
        if event == "opcode":
            before, self.last[id(frame)] = self.last.get(id(frame)), frame.f_lasti
            code, at = frame.f_code, frame.f_lasti
            # CPython raises at the instruction that looked, we at the next one, which may stand outside of what the handler covers.
            self.seen += instructions(code).get(before) in LOOKS and handler_at(code, before) == handler_at(code, at)
            if self.seen == self.number and not self.where:
                self.where = f"{os.path.relpath(frame.f_code.co_filename, OURS)}:{frame.f_lineno}"
                raise Interrupted
        return self.stepped

    def run(self, function, *args):
        before = sys.gettrace()
        sys.settrace(self.called)
        try:
            function(*args)
        except Interrupted:
            pass
        finally:
            sys.settrace(before)


FACTORS, layer = [3.0], torch.nn.Linear(4, 4).eval()
callee = torch.compile(lambda x: x * 2 + 1, backend="eager")
PROGRAMS = {
    "closure": lambda x: x * 2 + FACTORS[0],
    "json": lambda x: x * len(json.dumps({"rows": x.shape[0]})),
    "index": lambda x: x[x.shape[0] // 2] + x[:, x.shape[1] - 1].sum(),
    "callee": lambda x: callee(x) + 1,
    "draw": lambda x: torch.nn.functional.dropout(x, 0.5, True) + torch.rand_like(x),
    "layer": lambda x: layer(x).relu(),
    "no_grad": torch.no_grad()(lambda x: (x @ layer.weight).sum()),
    "structure": lambda x: {"parts": [x + i for i in range(3)], "rows": x.shape[0]},
    "counted": lambda x: (x.isnan(), int(x.numel() + x.count_nonzero())),   # a number that torch wraps in a tensor
    "generator": lambda x, generator: x + torch.rand(x.shape, generator=generator),
}


def arguments(name, rows):
    given = (torch.arange(rows * 4.0).view(rows, 4),)
    return (*given, torch.Generator().manual_seed(rows)) if name == "generator" else given


def of_the_process():
    frames = sys.modules["torch._dynamo.eval_frame"]
    return {"json": json.JSONEncoder.default.__module__, "brackets": {"__getitem__", "__setitem__"} & torch.Tensor.__dict__.keys(),
            "stance": frames._callback_from_stance.__module__, "profiler": sys.getprofile(), "recording": (core().recording(), set(jit_entry.RECORDING)),
            "begun": core().has_begun_a_call(), "watched": core().watches_calls(), "gradients": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
            "modes": (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()), "warnings": [*warnings.filters]}


def seeded(function, args):
    torch.manual_seed(7)
    return function(*args), torch.rand(2)


def test_an_interrupt_that_comes_while_an_operator_is_placed_is_the_programs():
    """Where an operator stands must not fail the program, so what is raised there comes again, as it was, and the recording is not kept."""
    def program(x):
        try:
            for _ in range(20):
                x = x + 1
        except TimeoutError as error:
            return str(error)
        return x

    class Late(Interrupter):
        def stepped(self, frame, event, _):
            if event == "opcode" and frame.f_code.co_name == "_number" and not self.where:
                self.where = "the locator"
                raise TimeoutError("after five seconds")
            return self.stepped

    compiled, results = escapement.jit(program), []
    Late(0).run(lambda x: results.append(compiled(x)), torch.zeros(3))
    assert results == ["after five seconds"]
    for rows in (3, 1, 4):
        assert torch.equal(compiled(torch.zeros(rows)), torch.full((rows,), 20.0))


def time_limit(*_):
    raise TimeoutError("after five seconds")


class Limited(Interrupter):
    """A handler of a signal's raises what functions raise, too."""

    def stepped(self, frame, event, _):
        try:
            return super().stepped(frame, event, _)
        except Interrupted:
            time_limit()


@pytest.mark.parametrize("name", ["closure", "counted", "structure"])
def test_a_time_limit_is_not_taken_for_the_programs_error(name):
    """That one eager raises again, as the function runs once more."""
    before, number = signal.signal(signal.SIGUSR1, time_limit), 1 + len(name)
    try:
        while True:
            compiled, interrupter, raised = escapement.jit(PROGRAMS[name]), Limited(number), False
            try:
                interrupter.run(compiled, *arguments(name, 2))
            except TimeoutError as error:
                raised = str(error) == "after five seconds"
            if not interrupter.where:
                break
            assert raised, interrupter.where
            for rows in (2, 3, 1, 7):
                torch.testing.assert_close(compiled(*arguments(name, rows)), PROGRAMS[name](*arguments(name, rows)), msg=interrupter.where)
            number += STRIDE
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert number > 500


def caught(x):
    """What an operator refuses behind a write, the program catches: known from where each operator stands."""
    values, columns = x.logical_not_().mode(-1)
    try:
        return values.index_fill_(0, columns, 2)   # as many rows are too few
    except IndexError:
        return columns


def of_columns(rows):
    return torch.arange(rows * 33).view(rows, 33) % 13 != 12


class InLocator(Interrupter):
    def called(self, frame, event, _):
        return super().called(frame, event, _) if frame.f_code.co_filename.endswith("locator.py") else None


def raised_or_given(function, x):
    try:
        return function(x)
    except IndexError as error:
        return str(error)


def test_a_try_is_noted_or_the_recording_is_not_kept():
    for number in range(1, 200, max(1, STRIDE // 10)):
        compiled, interrupter = escapement.jit(caught), InLocator(number)
        for rows in (33, 17):
            if not interrupter.where:
                interrupter.run(functools.partial(raised_or_given, compiled), of_columns(rows))
        if not interrupter.where:
            break
        for rows in (17, 3, 33, 3):
            assert torch.equal(caught(of_columns(rows)), raised_or_given(compiled, of_columns(rows))), (interrupter.where, rows)
    assert number > 20


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_afterwards_all_is_as_before(name, mode):
    callee(torch.ones(1, 4))
    other = lambda: escapement.jit(lambda x: x * 3 + 1)(torch.ones(2, 3))
    assert torch.equal(other(), torch.full((2, 3), 4.0))
    number, before, wrong, taken = 1 + len(name), of_the_process(), [], 0
    while True:
        compiled, interrupter = escapement.jit(PROGRAMS[name], mode=mode), Interrupter(number)
        for rows in (2, 3, 5):
            if not interrupter.where:
                interrupter.run(compiled, *arguments(name, rows))
        if not interrupter.where:
            break
        taken, number = taken + 1, number + STRIDE
        assert torch.equal(other(), torch.full((2, 3), 4.0)), interrupter.where
        if of_the_process() != before:
            wrong.append((interrupter.where, of_the_process()))
        for rows in (2, 3, 1, 7, 7):
            torch.testing.assert_close(seeded(compiled, arguments(name, rows)), seeded(PROGRAMS[name], arguments(name, rows)), msg=interrupter.where)
    assert wrong == [] and taken >= (500 if mode == "call" else 100) // STRIDE
