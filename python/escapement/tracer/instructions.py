"""What code does, read from its bytes: a search looks at thousands of functions, and to disassemble one takes a millisecond."""

import dis
import functools
import re
import sys

EXTENDED_ARG = dis.opmap["EXTENDED_ARG"]
WITH_NAMES = frozenset(dis.opname[each] for each in dis.hasname)
FLAGS = {"LOAD_GLOBAL": ((3, 11), 1), "LOAD_ATTR": ((3, 12), 1), "LOAD_SUPER_ATTR": ((3, 12), 2)}   # (since when, how many bits below the name's index)
SHIFTS = {dis.opmap[name]: bits for name, (since, bits) in FLAGS.items() if name in dis.opmap and sys.version_info >= since}


@functools.cache
def opcodes(names):
    """Of a frozenset of names of instructions, those that this Python has."""
    return frozenset(dis.opmap[name] for name in names if name in dis.opmap)


@functools.cache
def pattern(names):
    return re.compile(b"[" + re.escape(bytes(sorted(opcodes(names)))) + b"]", re.DOTALL)


def has_any(code, names):
    """Whether there is such an instruction, in this code itself."""
    return not opcodes(names).isdisjoint(code.co_code[::2])


def names_at(code, names):
    """The names in `code.co_names` that such instructions have, in their order."""
    operations, arguments = code.co_code[::2], code.co_code[1::2]
    for found in pattern(names).finditer(operations):
        at = found.start()
        yield code.co_names[argument_at(operations, arguments, at) >> SHIFTS.get(operations[at], 0)]


def argument_at(operations, arguments, at):
    """With what stands before it where it does not fit one byte."""
    first = at
    while first and operations[first - 1] == EXTENDED_ARG:
        first -= 1
    return int.from_bytes(arguments[first:at + 1], "big")
