"""Which code may ask whether a tensor is another one (`x is B`): an argument is another object while it is recorded than where the program finds it else."""

import dis
import functools

ASKING = frozenset(("id",))
OPERATORS = frozenset(dis.opmap[name] for name in ("IS_OP", "CONTAINS_OP"))


@functools.lru_cache(4096)
def asks_identity(code):
    """Not of None, True and other constants."""
    if not ASKING.isdisjoint(code.co_names) or not OPERATORS.isdisjoint(code.co_code[::2]) and compares_objects(code):
        return True
    return any(asks_identity(part) for part in code.co_consts if hasattr(part, "co_code"))


def compares_objects(code):
    before = None
    for instruction in dis.get_instructions(code):
        if instruction.opcode in OPERATORS and before is not None and before.opname != "LOAD_CONST":
            return True
        if instruction.opname not in ("CACHE", "EXTENDED_ARG"):
            before = instruction
    return False
