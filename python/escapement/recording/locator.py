"""Which line of the user's program does the op being recorded come from?

The recorder asks once per op, so the answer is an int: the index of the graph node. Text is made when somebody reads it. Being asked
at every op, the locator of plain Python also sees what only frames tell: whether an op runs inside of a `try` of the program's.
"""

import dis
import functools
import math
import os
import re
import sys
import weakref

import torch

USER_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
UNKNOWN = -1
# torch, this package, and code that torch's graphs generate. Not "<string>": python -c calls the user's program so.
PACKAGE = os.path.dirname(os.path.dirname(__file__))
FRAMEWORK = (*(folder + os.sep for folder in (os.path.dirname(torch.__file__), PACKAGE)), "<frozen", "<eval_with_key")


class Locator:
    """Callable without arguments, from inside the graph's forward. Holds the graph weakly: the region owns it already."""

    def __init__(self, gm, line_table):
        self._code = type(gm).forward.__code__
        self._node_of_line, self._first_line = line_table
        self._graph = weakref.ref(gm)

    def __call__(self):
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code is self._code:
                return self._index(frame.f_lineno)
            frame = frame.f_back
        return UNKNOWN

    def _index(self, line):
        index = self._node_of_line.get(line - self._first_line)
        return UNKNOWN if index is None else index

    def text(self, index):
        """`file:line` of the innermost user frame, or the node itself where the graph has no stack trace."""
        gm = self._graph()
        nodes = list(gm.graph.nodes) if gm is not None else []
        if not 0 <= index < len(nodes):
            return ""
        return node_place(nodes[index])


def place_of(fn):
    """Name, file and line of what the user wrote."""
    if isinstance(fn, functools.partial):
        return place_of(fn.func)
    module = isinstance(fn, torch.nn.Module)
    code = getattr(getattr(type(fn), "forward", None) if module else fn, "__code__", None)
    name = type(fn).__qualname__ if module else getattr(fn, "__qualname__", type(fn).__qualname__)
    return (name, code.co_filename, code.co_firstlineno) if code is not None else (name, "", 0)


def node_place(node):
    frames = USER_FRAME.findall(node.meta.get("stack_trace") or "")
    return "{}:{} in {}".format(*frames[-1]) if frames else f"graph node {node.name}"


class FrameLocator:
    """For plain Python: the innermost frame outside torch and this package, else torch's own innermost one.

    Called once per op while recording only; `text` knows every place by its number. `boundary`: the code object whose frame
    ends the search, since what lies beyond called the compiled function and is no part of it.

    Being there at every op, it also sees whether gradients were ever switched on, and tells `on_try` when an op first runs
    inside of a `try` of the program's."""

    def __init__(self, boundary, on_try):
        self.saw_gradients = False
        self._boundary, self._on_try, self._ours, self._tries, self._numbers, self._places = boundary, on_try, {}, {}, {}, []

    def __call__(self):
        self.saw_gradients = self.saw_gradients or torch.is_grad_enabled()
        frame, innermost, user, in_try = sys._getframe(1), None, None, False
        while frame is not None and frame.f_code is not self._boundary:
            if not self._framework(frame.f_code):
                user = user or frame
                in_try = in_try or self._on_try is not None and self._is_in_try(frame)
                if self._on_try is None:
                    break
            innermost = innermost or frame
            frame = frame.f_back
        if in_try and frame is not None:   # without the boundary what was seen is the caller's
            self._on_try()
            self._on_try = None
        found = user or innermost
        return UNKNOWN if found is None else self._number(found)

    def _is_in_try(self, frame):
        ranges = self._tries.get(frame.f_code)
        if ranges is None:
            ranges = self._tries[frame.f_code] = tries(frame.f_code)
        return any(start <= frame.f_lasti < end for start, end in ranges)

    def _framework(self, code):
        known = self._ours.get(code)
        if known is None:
            known = self._ours[code] = code.co_filename.startswith(FRAMEWORK)
        return known

    def _number(self, frame):
        number = self._numbers.setdefault((frame.f_code, frame.f_lineno), len(self._places))
        if number == len(self._places):
            code = frame.f_code
            self._places.append(f"{code.co_filename}:{frame.f_lineno} in {getattr(code, 'co_qualname', code.co_name)}")
        return number

    def text(self, number):
        return self._places[number] if 0 <= number < len(self._places) else ""


def tries(code):
    """Where in the code (by offset) exceptions go to a handler of the program's. A `with` has one, too, which is none of its own."""
    instructions = list(dis.get_instructions(code))
    if not hasattr(code, "co_exceptiontable"):   # before Python 3.11: as if it were everywhere
        return [(0, math.inf)] if any(i.opname == "SETUP_FINALLY" for i in instructions) else []
    names = {i.offset: (i.opname, after.opname) for i, after in zip(instructions, instructions[1:])}
    table = ((entry.start, entry.end, *names.get(entry.target, ("", ""))) for entry in dis._parse_exception_table(code))
    return [(start, end) for start, end, first, second in table if first == "PUSH_EXC_INFO" and second != "WITH_EXCEPT_START"]
