"""What code names: globals, attributes, modules that it imports when it runs."""

import dis
import functools
import importlib.util
import itertools
import types

GLOBALS = frozenset(("LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME", "STORE_NAME"))   # instructions


def inner_code(code):
    return [item for item in code.co_consts if isinstance(item, types.CodeType)]


@functools.lru_cache(maxsize=4096)
def globals_in(code):
    """Names of globals of a code object and of those inside it."""
    own = [step.argval for step in dis.get_instructions(code) if step.opname in GLOBALS]
    return dict.fromkeys(itertools.chain(own, *map(globals_in, inner_code(code))))


def names_in(code):
    """The same, and names of attributes, also in texts (`getattr(settings, "scale")`)."""
    texts = [item for item in code.co_consts if isinstance(item, str) and item.isidentifier()]
    return dict.fromkeys(itertools.chain(code.co_names, texts, *map(names_in, inner_code(code))))


def imports_in(code, space):
    """The full names of the modules that the code imports, and of those that these lie in."""
    return tuple(name for dots, relative in relative_imports(code) for name in with_homes(dots, relative, space.get("__package__")))


@functools.lru_cache(maxsize=4096)
def relative_imports(code):
    """(dots, name): `from ..a import b` has two."""
    found, before = [], [None, None]
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            found.append((before[0] or 0, step.argval))
        before = [before[1], step.argval if step.opname == "LOAD_CONST" else None]
    return tuple(itertools.chain(found, *map(relative_imports, inner_code(code))))


def with_homes(dots, name, package):
    if dots:
        try:
            name = importlib.util.resolve_name("." * dots + name, package)
        except ImportError:   # outside of any package: the import itself fails
            return []
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
