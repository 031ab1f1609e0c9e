"""Options: names, types and defaults come from the core's one table; this file only checks values against it. What is wrong is an OptionError
that names the option, what it takes, and the variable of the environment if the value came from one.

Precedence: `torch.compile(options=...)`, then `mode=`, then ESCAPEMENT_OPTIONS, then ESCAPEMENT_<NAME>, then the default.
"""

import difflib
import os
import typing

from .core import core
from .errors import OptionError

# torch's modes are accepted so that a program can switch backends; none changes anything, because low call overhead and the
# best kernels we have are what every call gets.
MODES = {"default": {}, "lite": {}, "reduce-overhead": {}, "max-autotune-no-cudagraphs": {}, "max-autotune": {}}
TYPES = {"bool": bool, "int": int, "float": float, "str": str}
LARGEST = 2**31 - 1   # of an integer: the core reads no larger ones, and none below 0
WORDS = {"1": True, "true": True, "on": True, "yes": True, "0": False, "false": False, "off": False, "no": False}


class Option(typing.NamedTuple):
    name: str
    type: str
    default: object
    choices: tuple
    doc: str
    value: object  # what a compile without `options=` uses


def table():
    return {row[0]: Option(row[0], row[1], row[2], tuple(row[3] or ()), row[4], row[2]) for row in core().option_table()}


def options():
    """Every option by name: type, default, choices, one line of documentation, and the value now in force."""
    rows = table()
    values = resolve()
    return {name: row._replace(value=values[name]) for name, row in rows.items()}


def resolve(mode=None, given=None):
    """The complete set of values for one compile."""
    rows = table()
    values = {name: row.default for name, row in rows.items()}
    values.update(from_environment(rows))
    values.update(from_mode(mode))
    for name, value in (given or {}).items():
        values[name] = checked(find(rows, name, "option"), value)
    return values


def from_mode(mode):
    if mode is None:
        return {}
    if mode not in tuple(MODES):   # which may not be hashable
        raise OptionError(f"mode={mode!r} is not known to escapement{near(str(mode), MODES)} (it takes {', '.join(MODES)})")
    return MODES[mode]


def from_environment(rows):
    """ESCAPEMENT_STRICT=1 for one option, ESCAPEMENT_OPTIONS="strict,threads=4" for several; a bare name means true."""
    text = os.environ.get("ESCAPEMENT_OPTIONS", "")
    values = {name: parsed(row, os.environ[variable], variable) for name, row in rows.items()
              if (variable := f"ESCAPEMENT_{name.upper()}") in os.environ}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, given, value = (part.strip() for part in item.partition("="))
        row = find(rows, name, "option in ESCAPEMENT_OPTIONS")
        values[name] = parsed(row, value if given else "1", "ESCAPEMENT_OPTIONS")
    return values


def disabled():
    """ESCAPEMENT_DISABLE=1: every graph runs as eager would run it. Asked without the core."""
    return truth("disable", os.environ.get("ESCAPEMENT_DISABLE", "0"), "ESCAPEMENT_DISABLE")


def find(rows, name, what):
    if name not in rows:
        raise OptionError(f"unknown {what}: {name!r}{near(str(name), rows)} (python -m escapement options lists all)")
    return rows[name]


def near(name, known):
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def parsed(row, text, variable):
    """A string from the environment as the type of the row, checked."""
    if row.type == "bool":
        return truth(row.name, text, variable)
    try:
        value = TYPES[row.type](text)
    except ValueError:
        raise OptionError(f"option {row.name!r} is of type {row.type}; {text!r} is not{origin(variable)}") from None
    return checked(row, value, variable)


def truth(name, text, variable):
    value = WORDS.get(text.strip().lower())
    if value is None:
        raise OptionError(f"option {name!r} is a bool; {text!r} is none of {', '.join(WORDS)}{near(text.lower(), WORDS)}{origin(variable)}")
    return value


def origin(variable):
    return f" (from the environment: {variable})" if variable else ""


def checked(row, value, variable=None):
    """The value, if its type is the row's. An int may stand for a float; a bool never stands for an int."""
    if row.type == "float" and type(value) is int:
        value = float(value)
    if type(value) is not TYPES[row.type]:
        raise OptionError(f"option {row.name!r} is of type {row.type}; got {value!r} ({type(value).__name__}){origin(variable)}")
    if row.type == "int" and not 0 <= value <= LARGEST:
        raise OptionError(f"option {row.name!r} is an integer from 0 to {LARGEST}; got {value}{origin(variable)}")
    if row.choices and value not in row.choices:
        choices = ", ".join(map(str, row.choices))
        raise OptionError(f"option {row.name!r} takes one of {choices}; got {value!r}{near(str(value), map(str, row.choices))}{origin(variable)}")
    if row.type == "str":
        check_names(row, value, variable)
    return value


def check_names(row, value, variable):
    """Texts that name something are looked up by the core, which has the tables."""
    try:
        getattr(core(), "check_option", lambda *_: None)(row.name, value)
    except RuntimeError as error:
        raise OptionError(f"{error}{origin(variable)}") from None
