"""A number of a recording is no int and no float to what is written in C, which then raises a TypeError that eager does not know. Where nobody catches
it, the call runs eagerly. Where the program does, it goes another way than eager; so it is noticed when it passes a handler of the program's own."""

import contextlib
import dis
import re
import sys
import threading

from ..recording import symbols
from .homes import of_program
from .outside import count
from .while_recording import Replaced, all_of

NAMES_OURS = re.compile(r"\bSym(?:Int|Float|Bool)\b|descriptor '\w+' (?:requires|for) a?n? ?'(?:int|float)'")


def may_be_ours(frame, error, traceback):
    """Its text says so; or what is written in C raised it where the program called that, and there have been numbers."""
    if NAMES_OURS.search(str(error)):
        return True
    raised = dis.opname[frame.f_code.co_code[frame.f_lasti]] in ("RAISE_VARARGS", "RERAISE")
    return traceback.tb_next is None and not raised and symbols.have_been_made()


def told():
    """What traces this thread, to the program: what would if nothing were recorded. It may be another one at the next call."""
    if of_program(sys._getframe(1).f_code.co_filename):
        count()
    found, (ours, other) = traced_by(), TRACING.get(threading.get_ident(), (None, None))
    return other if ours is not None and found is ours else found


traced_by = sys.gettrace
TRACING = {}   # thread -> (what traces it here, what did before)
others_are_told = all_of([Replaced(lambda: sys, "gettrace", told)])


class Caught:
    error = None   # the first of them


def with_handlers(code):
    """The code, and what is defined in it. (Python 3.10 has no tables of handlers.)"""
    if getattr(code, "co_exceptiontable", b"?"):
        yield code
    for part in code.co_consts:
        if hasattr(part, "co_consts"):
            yield from with_handlers(part)


@contextlib.contextmanager
def type_errors_noticed(codes):
    """`codes`: of the program's functions with handlers. A debugger or a coverage tool that traces this thread goes on seeing all that it saw."""
    caught, other = Caught(), traced_by()

    def called(frame, event, argument):
        others = other and other(frame, event, argument)
        if other and traced_by() is not called:   # one that is written in C puts itself back at each call
            sys.settrace(called)
        if frame.f_code not in codes:
            return others
        frame.f_trace_lines = others is not None
        return beside(others)

    def beside(others):
        def passes(frame, event, argument):
            nonlocal others
            if event == "exception" and caught.error is None and issubclass(argument[0], TypeError) and may_be_ours(frame, *argument[1:]):
                caught.error = argument[1]
            if others is not None:
                others = others(frame, event, argument)
            return passes
        return passes

    if not codes:
        yield caught
        return
    thread = threading.get_ident()
    before = TRACING.get(thread)   # recordings inside of each other
    with others_are_told():
        try:
            TRACING[thread] = called, before[1] if before and other is before[0] else other
            sys.settrace(called)
            yield caught
        finally:
            if traced_by() is called:
                sys.settrace(other)
            TRACING.pop(thread, None)
            if before is not None:
                TRACING[thread] = before
