"""Whether an exception of the operation that is being traced could be caught by the program: what its handlers ask for, read from the code of its frames.

A handler that names classes which no operator raises (`except TypeError` around a model's layers) catches nothing of the operators; one whose classes can't be told
from the code catches everything, and so does a context manager of the program's own: its __exit__ sees each exception.
"""

import builtins
import types

import torch

RAISED = (RuntimeError, NotImplementedError, IndexError, ValueError, ZeroDivisionError, OverflowError, FloatingPointError, MemoryError,
          torch.linalg.LinAlgError, torch.OutOfMemoryError, torch.AcceleratorError)   # by operators and by arithmetic, for sizes and for values
ASKED_FOR = frozenset().union(*(error.__mro__ for error in RAISED))
UNKNOWN = object()


class Everything:
    """The classes that an operator of the program's own may raise."""

    def __contains__(self, error):
        return True


ANY = Everything()


def under_except(translator, asked_for=ASKED_FOR):
    """In the frame that is being traced or in one that called it: by a handler that asks for one of those classes."""
    while translator is not None:
        if any(catches(translator, handler, asked_for) for handler in handlers(translator)) or getattr(translator, "active_generic_context_managers", None):
            return True
        translator = getattr(translator, "parent", None)
    return False


def handlers(translator):
    """Innermost first: what one of them does not catch goes on to where its own code lies."""
    at, seen = translator.current_instruction, set()
    while (entry := getattr(at, "exn_tab_entry", None)) is not None and id(entry.target) not in seen:
        at = entry.target
        seen.add(id(at))
        yield at


def catches(translator, handler, asked_for):
    """Not so the handlers of `with`, of `finally` and of generators: they look at no exception's class."""
    start = translator.indexof[handler] + 1
    following = [instruction.opname for instruction in translator.instructions[start:start + 40]]
    if following[:1] == ["WITH_EXCEPT_START"]:
        return False
    before_raise = following[:following.index("RERAISE")] if "RERAISE" in following else following
    if following[:1] == ["POP_TOP"]:
        return True
    return "CHECK_EXC_MATCH" in before_raise and clauses_catch(translator, start, asked_for)


def clauses_catch(translator, start, asked_for):
    """Of the clauses from there on, in their order: each jumps to the next one where its classes do not match."""
    while start is not None:
        if translator.instructions[start].opname == "RERAISE":
            return False
        asked, matched = classes_asked_for(translator, start)
        if asked is UNKNOWN or any(error in asked_for for error in asked):
            return True
        jump = translator.instructions[matched + 1]
        start = translator.indexof.get(jump.target) if jump.opname.startswith("POP_JUMP") else None
    return True


def classes_asked_for(translator, start):
    """What a clause's expression gives and where it is compared, followed through what may stand there: names, attributes of modules, tuples."""
    stack = []
    for at in range(start, len(translator.instructions)):
        instruction = translator.instructions[at]
        if instruction.opname == "CHECK_EXC_MATCH":
            return flat(stack[-1]) if len(stack) == 1 else UNKNOWN, at
        if instruction.opname == "LOAD_GLOBAL":
            stack.append(named(translator, instruction.argval))
        elif instruction.opname == "LOAD_ATTR" and stack and isinstance(stack[-1], types.ModuleType):
            stack[-1] = vars(stack[-1]).get(instruction.argval, UNKNOWN)
        elif instruction.opname == "BUILD_TUPLE" and 0 < instruction.arg <= len(stack):
            stack[-instruction.arg:] = [tuple(stack[-instruction.arg:])]
        else:
            return UNKNOWN, at
    return UNKNOWN, start


def named(translator, name):
    """A class by its own name, or a module. A variable that holds a class may hold another one at the next call, and nothing guards it."""
    found = translator.f_globals.get(name, vars(builtins).get(name, UNKNOWN))
    return found if isinstance(found, types.ModuleType) or getattr(found, "__name__", None) == name else UNKNOWN


def flat(asked):
    """A list of classes, of one or of a tuple of them in which others may lie."""
    if isinstance(asked, tuple):
        parts = [flat(part) for part in asked]
        return UNKNOWN if UNKNOWN in parts else [error for part in parts for error in part]
    return [asked] if isinstance(asked, type) and issubclass(asked, BaseException) else UNKNOWN
