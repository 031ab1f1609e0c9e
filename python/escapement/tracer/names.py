"""What code names: globals, attributes, modules that it imports when it runs."""

import dis
import functools
import importlib.util
import itertools
import re
import types

GLOBALS = frozenset(("LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME", "STORE_NAME"))   # instructions


READ_ALL = frozenset(("vars", "__dict__", "getmembers"))   # who says so may read all attributes together
NAMESPACES = frozenset(("globals", "eval", "exec"))        # or globals by names that stand in texts
JOINING = frozenset(("FORMAT_VALUE", "FORMAT_SIMPLE", "BUILD_STRING"))   # instructions that make a name
WORD = re.compile(r"[^\W\d]\w*")


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


def reads_all(names):
    return not READ_ALL.isdisjoint(names)


@functools.lru_cache(maxsize=4096)
def globals_computed(code):
    """Names of globals that stand in texts (`globals()["K"]`, `eval("K + 1")`), or None: any."""
    if not any(map(reads_globals, with_inner(code))):
        return ()
    words = [word for each in with_inner(code) for text in texts_in(each.co_consts) for word in WORD.findall(text)]
    joined = any(step.opname in JOINING for each in with_inner(code) for step in dis.get_instructions(each))
    return None if joined or not words else tuple(dict.fromkeys(words))


def reads_globals(code):
    return "__globals__" in code.co_names or not NAMESPACES.isdisjoint(globals_in(code))


def with_inner(code):
    return [code, *itertools.chain.from_iterable(map(with_inner, inner_code(code)))]


def texts_in(constants):
    for item in constants:
        if isinstance(item, str):
            yield item
        elif isinstance(item, (tuple, frozenset)):
            yield from texts_in(item)


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
