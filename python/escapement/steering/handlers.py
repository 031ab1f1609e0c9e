"""Whether an exception of the operation that is being traced could be caught by the program: what its handlers ask for, read from the code of its frames.

A handler that names classes which no operator raises (`except TypeError` around a model's layers) catches nothing of the operators; one whose classes can't be told
from the code catches everything, and so does a context manager of the program's own: its __exit__ sees each exception. One that always raises, as libraries
do to say more (PyTorch Geometric around its scatters), is not in the way: an error ends the call, though it is the operator's.
"""

import builtins
import types
import weakref

import torch

RAISED = (RuntimeError, NotImplementedError, IndexError, ValueError, ZeroDivisionError, OverflowError, FloatingPointError, MemoryError,
          torch.linalg.LinAlgError, torch.OutOfMemoryError, torch.AcceleratorError)   # by operators and by arithmetic, for sizes and for values
ASKED_FOR = frozenset().union(*(error.__mro__ for error in RAISED))
ENDS = ("RERAISE", "RAISE_VARARGS", "JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE")
PASSES, RAISES, SWALLOWS = range(3)
UNKNOWN = object()
WANTED = weakref.WeakSet()   # code whose errors a caller was seen to catch: such a caller has a graph break, and the code is a frame of its own then


class Everything:
    """The classes that an operator of the program's own may raise."""

    def __contains__(self, error):
        return True


ANY = Everything()


def under_except(translator, asked_for=ASKED_FOR):
    """In the frame that is being traced or in one that called it: by a handler that asks for one of those classes and goes on behind it."""
    turned = []   # the code of frames whose handlers raise
    while translator is not None:
        if handled(translator, asked_for, turned) or getattr(translator, "active_generic_context_managers", None):
            WANTED.update(turned)
            return True
        asked_for = ANY if turned else asked_for
        translator = getattr(translator, "parent", None)
    return False


def handled(translator, asked_for, turned):
    """In that frame. What a handler makes of an error may be another one, for those further out."""
    for handler in handlers(translator):
        does = what_it_does(translator, handler, asked_for)
        if does == SWALLOWS or does == RAISES and translator.f_code in WANTED:
            return True
        if does == RAISES:
            turned.append(translator.f_code)
            asked_for = ANY
    return False


def handlers(translator):
    """Innermost first: what one of them does not catch goes on to where its own code lies."""
    at, seen = translator.current_instruction, set()
    while (entry := getattr(at, "exn_tab_entry", None)) is not None and id(entry.target) not in seen:
        at = entry.target
        seen.add(id(at))
        yield at


def what_it_does(translator, handler, asked_for):
    """With an error of those classes. The handlers of `with`, of `finally` and of generators pass it on: they look at no exception's class."""
    start = translator.indexof[handler] + 1
    following = [instruction.opname for instruction in translator.instructions[start:start + 40]]
    if following[:1] == ["WITH_EXCEPT_START"]:
        return PASSES
    before_raise = following[:following.index("RERAISE")] if "RERAISE" in following else following
    if following[:1] == ["POP_TOP"]:
        return what_comes_of_it(translator, start)
    return what_clauses_do(translator, start, asked_for) if "CHECK_EXC_MATCH" in before_raise else PASSES


def what_clauses_do(translator, start, asked_for):
    """From there on, in their order: each jumps to the next one where its classes do not match."""
    does = PASSES
    while start is not None and translator.instructions[start].opname != "RERAISE":
        asked, matched = classes_asked_for(translator, start)
        jump = translator.instructions[matched + 1]
        if asked is UNKNOWN or not jump.opname.startswith("POP_JUMP"):
            return SWALLOWS
        if any(error in asked_for for error in asked):
            does = what_comes_of_it(translator, matched + 2)
            if does == SWALLOWS:
                return does
        start = translator.indexof.get(jump.target)
    return SWALLOWS if start is None else does


def what_comes_of_it(translator, start):
    """Of a clause's body: the program goes on, or each way through it ends with an error (of the program's own, with the sizes that were wrong in its text)."""
    ways, seen = [start], set()
    while ways:
        at = ways.pop()
        if at in seen:
            continue
        seen.add(at)
        instruction = translator.instructions[at]
        if instruction.opname == "POP_EXCEPT" or instruction.opname.startswith(("RETURN", "YIELD", "SEND")):
            return SWALLOWS
        if instruction.target is not None:
            ways.append(translator.indexof[instruction.target])
        if instruction.opname not in ENDS:
            ways.append(at + 1)
    return RAISES


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
