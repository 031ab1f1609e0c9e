"""Errors that the handler of a signal has raised (a time limit). They come at any time, in whatever code runs just then, and are nobody's failure."""

import functools

import _signal

SIGNALS = sorted(map(int, _signal.valid_signals()))


def code_of(called):
    """The code of a function, a bound method, a partial function or an object that can be called; else None."""
    while isinstance(called, functools.partial):
        called = called.func
    called = getattr(called, "__func__", called)
    return getattr(called if hasattr(called, "__code__") else getattr(type(called), "__call__", None), "__code__", None)


def handlers_of_signals():
    return [*filter(None, (code_of(_signal.getsignal(number)) for number in SIGNALS))]


def is_interrupt(error):
    """Whether a handler's frame is where the error, or one that it was raised for, comes from. (What another thread asks for cannot be told.)"""
    handlers, known = handlers_of_signals(), set()
    while error is not None and id(error) not in known:
        known.add(id(error))
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code in handlers:
                return True
            trace = trace.tb_next
        error = error.__cause__
    return False
