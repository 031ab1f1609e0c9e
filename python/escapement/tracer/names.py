"""What code names: globals, attributes, modules that it imports when it runs; and whether a name may be anything, since it is no text in the code."""

import dis
import functools
import importlib.util
import itertools
import re
import string
import types
import typing

from .instructions import has_any, names_at

GLOBALS = frozenset(("LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME", "STORE_NAME"))   # instructions


READ_ALL = frozenset(("vars", "__dict__", "getmembers", "__getattribute__", "getattr_static", "pickle", "cloudpickle", "dill"))   # who says so may read all attributes together
NAMESPACES = frozenset(("globals", "eval", "exec"))        # or globals by names that stand in texts
WORD = re.compile(r"[^\W\d]\w*")


ASKING = frozenset(("getattr", "hasattr", "setattr", "delattr"))   # for an attribute by a name that may be anything
GETTING = frozenset(("attrgetter", "methodcaller"))        # likewise, later
SETTING = frozenset(("__setattr__", "__delattr__"))
SHOWING = frozenset(("repr", "str", "format", "format_map", "print", "ascii"))
WRITING_TEXTS = frozenset(name for name in dis.opmap if name.startswith("FORMAT_"))   # instructions
COMPARING, ORDERS = frozenset(("COMPARE_OP", "CONTAINS_OP")), frozenset(("<", ">", "<=", ">="))
ENVIRONMENT = frozenset(("environ", "environb", "getenv", "getenvb"))
EXPANDING = frozenset(("expandvars", "expanduser"))        # texts by variables of the process
SILENT = frozenset(("CACHE", "EXTENDED_ARG", "NOP", "PRECALL"))   # instructions that say nothing here


def inner_code(code):
    return [item for item in code.co_consts if isinstance(item, types.CodeType)]


@functools.lru_cache(maxsize=16384)
def globals_in(code):
    """Names of globals of a code object and of those inside it."""
    return dict.fromkeys(itertools.chain(names_at(code, GLOBALS), *map(globals_in, inner_code(code))))


def names_in(code):
    """The same, and names of attributes, also in texts (`getattr(settings, "scale")`, `attrgetter("inner.scale")`, `case Settings(scale=s)`)."""
    texts = [part for text in texts_in(code.co_consts) for part in parts_of_name(text)]
    return dict.fromkeys(itertools.chain(code.co_names, texts, *map(names_in, inner_code(code))))


def parts_of_name(text):
    """Also those that `format` asks for: "{0.scale:{1.width}}"."""
    if "{" in text:
        return tuple(fields_of(text))
    parts = text.split(".")
    return parts if all(map(str.isidentifier, parts)) else ()


def fields_of(text):
    try:
        for _, field, how, _ in string.Formatter().parse(text):
            yield from WORD.findall(field or "")
            yield from fields_of(how or "")
    except ValueError:   # another kind of text
        return


def reads_all(names):
    return not READ_ALL.isdisjoint(names)


@functools.lru_cache(maxsize=16384)
def globals_computed(code):
    """Names of globals that stand in texts (`globals()["K"]`, `eval("K + 1")`), or None: any."""
    asking = [each for each in with_inner(code) if reads_globals(each)]
    if any(map(evaluates_anything, asking)):
        return None
    return tuple(dict.fromkeys(word for each in asking for text in texts_in(each.co_consts) for word in WORD.findall(text)))


def reads_globals(code):
    return "__globals__" in code.co_names or not NAMESPACES.isdisjoint(globals_in(code))


@functools.lru_cache(maxsize=16384)
def asks_by_variable(code):
    """Whether the name that some `getattr` is asked for is more than a text in the code."""
    return any(not is_constant(asked) for asked in calls_that_ask(code))


@functools.lru_cache(maxsize=16384)
def owners_asked(code):
    """Globals, with attributes of theirs, that are asked by a name that may be anything: `getattr(settings.fast, name)` -> ("settings", "fast")."""
    paths = [path_of(asked.steps) for each in with_inner(code) for asked in calls_that_ask(each) if not is_constant(asked)]
    return tuple(dict.fromkeys(path for path in paths if path))


class Asking(typing.NamedTuple):
    """A call that asks for an attribute: the instructions behind what puts the function onto the stack, and which arguments are the names."""
    steps: list
    names: slice


def calls_that_ask(code):
    known = {*code.co_names, *code.co_varnames}
    if ASKING.isdisjoint(known) and GETTING.isdisjoint(known) and SETTING.isdisjoint(known):
        return []
    steps = [step for step in dis.get_instructions(code) if step.opname not in SILENT]
    found = [(at, how_asked(step, code)) for at, step in enumerate(steps)]
    return [Asking(steps[at + 1:], names) for at, names in found if names is not None]


def how_asked(step, code):
    """Which of the arguments are names, where this is such a function."""
    if step.opname in GLOBALS and step.argval in ASKING:
        return slice(1, 2)
    if step.argval in GETTING and step.opname.startswith("LOAD_") and step.opname != "LOAD_CONST":
        return slice(0, 1 if step.argval == "methodcaller" else None)
    if step.argval in SETTING and step.opname.startswith("LOAD_") and step.opname != "LOAD_CONST" and code.co_name not in SETTING:   # these pass on what others name
        return slice(-2, -1) if step.argval == "__setattr__" else slice(-1, None)
    return None


def is_constant(asked):
    found = arguments_of(asked.steps)
    named = (found or ())[asked.names]
    return bool(named) and all(named)


def path_of(steps):
    """`a.b.c` at the beginning of these instructions."""
    if not steps or steps[0].opname not in GLOBALS:
        return ()
    return (steps[0].argval, *(step.argval for step in itertools.takewhile(lambda step: step.opname == "LOAD_ATTR", steps[1:])))


def constant_argument(steps, place):
    """The instruction that gives the argument at this place if it is a constant, or None."""
    found = arguments_of(steps)
    return found[place] if len(found) > place else None


def arguments_of(steps):
    """Of a call, for each argument the instruction that gives it if it is a constant, else None; () where that is not known. `steps`: behind the one that has put the
    function onto the stack, above which its arguments grow."""
    depth, starts = 0, {}   # of the argument that begins at each depth
    for at, step in enumerate(steps):
        if step.opname.startswith("CALL") and step.arg == depth:
            ends = [*(starts.get(place) for place in range(1, depth)), at]
            return [constant_between(steps, starts.get(place), end) for place, end in enumerate(ends[:depth])]
        if "JUMP" in step.opname or step.opname.startswith("RETURN"):
            return ()   # chosen by a condition
        starts[depth] = at
        depth += effect(step)
    return ()


def constant_between(steps, start, end):
    return steps[start] if start == end - 1 and steps[start].opname == "LOAD_CONST" else None


@functools.lru_cache(maxsize=16384)
def variables_in(code):
    """Variables of the process that the code asks for by texts in it; None among them: by whatever name."""
    inner = itertools.chain(*map(variables_in, inner_code(code)))
    if any(not ENVIRONMENT.isdisjoint(parts_of_name(text)) for text in texts_in(code.co_consts)):   # `vars(os)["environ"]`
        return (None, *inner)
    if ENVIRONMENT.isdisjoint((*code.co_names, *code.co_varnames)):
        return tuple(inner)
    steps = [step for step in dis.get_instructions(code) if step.opname not in SILENT]
    found = [variable_asked(steps, at) for at, step in enumerate(steps) if step.argval in ENVIRONMENT and step.opname.startswith("LOAD_")]
    renamed = any(step.opname == "IMPORT_FROM" and step.argval in ENVIRONMENT and steps[at + 1].argval != step.argval for at, step in enumerate(steps))
    return (*found, *([None] if renamed else []), *inner)


def variable_asked(steps, at):
    """By `getenv("K", 1)`, `environ.get("K")`, `environ["K"]`, `"K" in environ`."""
    behind, asked = steps[at + 1:], None
    if steps[at].argval.startswith("getenv"):
        asked = constant_argument(behind, 0)
    elif behind and behind[0].argval in ("get", "setdefault", "pop"):
        asked = constant_argument(behind[1:], 0)
    elif has_constant_text(behind):
        asked = behind[0]
    elif behind and behind[0].opname == "CONTAINS_OP":
        before = steps[:at - (steps[at].opname == "LOAD_ATTR")][-1:]   # without the module, `os`
        asked = before[0] if before and before[0].opname == "LOAD_CONST" else None
    return asked and asked.argval


def evaluates_anything(code):
    """Whether `eval`, `exec` or `globals()[...]` may be given more than texts in the code."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in SILENT]
    for at, step in enumerate(steps):
        if step.opname in GLOBALS and step.argval in ("eval", "exec") and not has_constant_text(steps[at + 1:]) and not has_own_names(steps[at + 1:]):
            return True
        if step.opname in GLOBALS and step.argval == "globals" and not is_asked_for_a_text(steps[at + 1:]):
            return True
    return "__globals__" in code.co_names and not any(is_asked_for_a_text(steps[at:]) for at, step in enumerate(steps) if step.argval == "__globals__")


def has_constant_text(steps):
    """And nothing more, as `eval("K + 1")`, `get("K")`, `get("K", 2)`, `[..."K"]`."""
    if not steps or steps[0].opname != "LOAD_CONST" or not isinstance(steps[0].argval, str):
        return False
    then = steps[2] if len(steps) > 2 and steps[1].opname == "LOAD_CONST" else steps[1]
    return then.opname.startswith("CALL") or then.opname in ("BINARY_SUBSCR", "STORE_SUBSCR", "DELETE_SUBSCR") or then.opname == "BINARY_OP" and then.argrepr == "[]"


def has_own_names(steps):
    """A call that gives the names, too: `eval(code, {"x": x})`."""
    depth = 0
    for step in steps:
        if step.opname.startswith("CALL") and step.arg == depth:
            return depth >= 2
        if "JUMP" in step.opname or step.opname.startswith("RETURN"):
            return False
        depth += effect(step)
    return False


def effect(step):
    return -1 - step.arg if step.opname == "CALL" else dis.stack_effect(step.opcode, step.arg, jump=False)


def is_asked_for_a_text(steps):
    """`globals()["K"]`, `globals().get("K")`, `"K" in globals()`; or the names are handed on, `{**globals(), "x": x}`, where texts in the code say which count."""
    if steps and steps[0].argval == "__globals__" or steps and steps[0].opname.startswith("CALL"):
        steps = steps[1:]
    if steps and steps[0].opname in ("LOAD_METHOD", "LOAD_ATTR"):
        steps = steps[1:]
    return has_constant_text(steps) or bool(steps) and steps[0].opname in ("CONTAINS_OP", "DICT_UPDATE", "DICT_MERGE")


IMPORTING, IMPORTS = frozenset(("import_module", "__import__")), frozenset(("IMPORT_NAME",))   # functions; instructions


@functools.lru_cache(maxsize=16384)
def imported_by_call(code):
    """The names that these functions are given; None: whatever it is."""
    if IMPORTING.isdisjoint(code.co_names):
        return ()
    steps = [step for step in dis.get_instructions(code) if step.opname not in SILENT]
    asked = [steps[at + 1:] for at, step in enumerate(steps) if step.argval in IMPORTING and step.opname.startswith("LOAD_")]
    return tuple(behind[0].argval if has_constant_text(behind) else None for behind in asked)


def reaches_modules_by_name(code):
    """`sys.modules[name]`, `importlib.import_module(name)`, `__import__(name)`."""
    if any(name is None for name in imported_by_call(code)):
        return True
    steps = [step for step in dis.get_instructions(code) if step.opname not in SILENT] if "modules" in code.co_names else ()
    return any(step.argval == "modules" and before.argval == "sys" for before, step in zip(steps, steps[1:])) or any(map(reaches_modules_by_name, inner_code(code)))


@functools.lru_cache(maxsize=16384)
def shown_or_compared(code):
    """Names of what the code may make a text of, or compare with another object: `self.c` in `f"{self.c}"`; all where `repr` and the like are called. What a call gives has none."""
    inner = frozenset(itertools.chain(*map(shown_or_compared, inner_code(code))))
    if not SHOWING.isdisjoint(code.co_names):
        return inner.union(code.co_names, code.co_freevars)
    if not has_any(code, WRITING_TEXTS | COMPARING):
        return inner
    steps = [step for step in dis.get_instructions(code) if step.opname not in SILENT]
    return inner.union(*(names_of_sides(steps, at) for at, step in enumerate(steps)))


def names_of_sides(steps, at):
    step = steps[at]
    if step.opname in WRITING_TEXTS:
        return operand(steps, at - 1 - (steps[at - 1].opname == "LOAD_CONST"))[0]   # behind which a format may stand
    if step.opname not in COMPARING or step.argval in ORDERS:
        return frozenset()
    right, start = operand(steps, at - 1)
    return right | operand(steps, start - 1)[0]


def operand(steps, at):
    """What has been put onto the stack by this instruction: its names, and where the first instruction for it stands."""
    step = steps[at] if at >= 0 else None
    if step is not None and step.opname in ("BUILD_LIST", "BUILD_TUPLE", "BUILD_SET"):
        names, start = frozenset(), at
        for _ in range(step.arg):
            found, start = operand(steps, start - 1)
            names |= found
        return names, start
    if step is None or not step.opname.startswith("LOAD_") or type(step.argval) is not str:
        return frozenset(), at
    start = at
    while start > 0 and steps[start].opname == "LOAD_ATTR":
        start -= 1
    return frozenset() if step.opname == "LOAD_CONST" else frozenset([step.argval]), start


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


@functools.lru_cache(maxsize=16384)
def relative_imports(code):
    """(dots, name): `from ..a import b` has two."""
    found, before = [], [None, None]
    for step in dis.get_instructions(code) if has_any(code, IMPORTS) else ():
        if step.opname == "IMPORT_NAME":
            found.append((before[0] or 0, step.argval))
        before = [before[1], step.argval if step.opname == "LOAD_CONST" else None]
    found.extend((0, name) for name in imported_by_call(code) if name)
    return tuple(itertools.chain(found, *map(relative_imports, inner_code(code))))


def with_homes(dots, name, package):
    if dots:
        try:
            name = importlib.util.resolve_name("." * dots + name, package)
        except ImportError:   # outside of any package: the import itself fails
            return []
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
