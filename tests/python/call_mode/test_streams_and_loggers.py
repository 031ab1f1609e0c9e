"""Where texts come from and go to, and who hands messages on: read at every call, or compared at every call."""

import io
import logging
import sys

import pytest
import torch

import escapement

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]
logger = logging.getLogger("escapement.test of streams")


def lines(x):
    for line in sys.stdin:
        return x * float(line)
    return x


@pytest.mark.parametrize("function", [lambda x: x * float(sys.stdin.readline()), lines, lambda x: x * float(input())], ids=["readline", "for", "input"])
@torch.no_grad()
def test_what_comes_in_is_read_at_every_call(function, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("1\n2\n3\n4\n5\n"))
    compiled = escapement.jit(function)
    assert [compiled(torch.ones(1)).item() for _ in range(5)] == [1, 2, 3, 4, 5]


class Terminal(io.StringIO):
    def isatty(self):
        return True


PLAIN, TERMINAL = io.StringIO(), Terminal()


@pytest.mark.parametrize("name", ["stdout", "stderr"])
@torch.no_grad()
def test_where_texts_go_is_compared(name, monkeypatch):
    ask = {"stdout": lambda: sys.stdout.isatty(), "stderr": lambda: sys.stderr.isatty()}[name]
    compiled = escapement.jit(lambda x: x * (2 if ask() else 3))
    for stream in (PLAIN, TERMINAL, PLAIN, TERMINAL):
        for size in (3, 4, 3):
            with monkeypatch.context() as patch:
                patch.setattr(sys, name, stream)
                found = compiled(torch.ones(size)).tolist()
            assert found == [2.0 if stream is TERMINAL else 3.0] * size
    info = compiled.info()
    assert info["recordings"] <= 2 and not info["eager"], info


@torch.no_grad()
def test_where_texts_go_is_set_at_every_call(monkeypatch):
    def run(x):
        sys.stderr = TERMINAL
        return x + 1

    compiled = escapement.jit(run)
    for stream in (TERMINAL, PLAIN, PLAIN, TERMINAL, PLAIN):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            compiled(torch.ones(1))
            found = sys.stderr
        assert found is TERMINAL


@torch.no_grad()
def test_what_is_printed_where_texts_go_is_no_state():
    compiled = escapement.jit(lambda x: (print("recorded", file=sys.stderr), x * 2)[1])
    for size in (3, 4, 5, 3, 7):
        assert compiled(torch.ones(size)).tolist() == [2.0] * size
    info = compiled.info()
    assert info["recordings"] == 1 and not info["eager"], info


HANDLER = logging.NullHandler()
QUESTIONS = {
    "handlers": (lambda: len(logger.handlers), lambda on: (logger.addHandler if on else logger.removeHandler)(HANDLER)), "hasHandlers": (lambda: logger.hasHandlers(), lambda on: setattr(logger, "propagate", on)),
    "propagate": (lambda: logger.propagate, lambda on: setattr(logger, "propagate", on)),
}


@pytest.mark.parametrize("name", QUESTIONS)
@torch.no_grad()
def test_loggers(name):
    ask, put = QUESTIONS[name]
    compiled = escapement.jit(lambda x: x * (2 + ask()))
    for on in (True, False, True, False):
        put(on)
        for size in (3, 4, 3):
            assert compiled(torch.ones(size)).tolist() == [2.0 + ask()] * size
    info = compiled.info()
    logger.propagate = True
    assert info["recordings"] <= 2 and not info["eager"], info


@torch.no_grad()
def test_messages_go_on_or_not_at_every_call():
    def run(x):
        logger.propagate = False
        return x + 1

    compiled = escapement.jit(run)
    for before in (False, True, False, True, True):
        logger.propagate = before
        compiled(torch.ones(1))
        assert logger.propagate is False
    logger.propagate = True


COMPLEX = [(lambda x: x * (2 if x.shape[0] == 3 + 0j else 5)), (lambda x: x * (2 if x.shape[0] != 3 + 0j else 5)), (lambda x: x * (2 if x.shape[0] == 3 + 1j else 5)), (lambda x: x * (2 if 3 + 0j == x.shape[0] else 5)),
           (lambda x: x * (2 if x.shape[0] / 2 == 1.5 + 0j else 5)), (lambda x: x * (2 if x.shape[0] == complex("nan") else 5))]


@pytest.mark.parametrize("row", range(len(COMPLEX)))
@torch.no_grad()
def test_sizes_beside_complex_numbers(row):
    compiled = escapement.jit(COMPLEX[row])
    for size in (3, 4, 3, 7, 5):
        assert torch.equal(compiled(torch.ones(size)), COMPLEX[row](torch.ones(size))), size
    assert compiled.info()["recordings"] <= 2, compiled.info()
