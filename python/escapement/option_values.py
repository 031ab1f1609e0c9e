"""Options: names, types and defaults come from the core's one table; this file only checks values against it.

Precedence: `torch.compile(options=...)`, then `mode=`, then ESCAPEMENT_OPTIONS, then ESCAPEMENT_<NAME>, then the default.
"""

import difflib
import os
import typing

from .core import core
from .errors import OptionError

# torch's modes are accepted so that a program can switch backends; none changes anything, because low call overhead and the
# best kernels we have are what every call gets.
MODES = {"default": {}, "reduce-overhead": {}, "max-autotune": {}}
TYPES = {"bool": bool, "int": int, "float": float, "str": str}
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
    if mode not in MODES:
        raise OptionError(f"mode={mode!r} is not known to escapement{near(str(mode), MODES)}; it takes {', '.join(MODES)}")
    return MODES[mode]


def from_environment(rows):
    """ESCAPEMENT_STRICT=1 for one option, ESCAPEMENT_OPTIONS="strict,threads=4" for several; a bare name means true."""
    text = os.environ.get("ESCAPEMENT_OPTIONS", "")
    values = {name: parsed(row, os.environ[variable]) for name, row in rows.items()
              if (variable := f"ESCAPEMENT_{name.upper()}") in os.environ}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, given, value = (part.strip() for part in item.partition("="))
        row = find(rows, name, "option in ESCAPEMENT_OPTIONS")
        values[name] = checked(row, parsed(row, value if given else "1"))
    return values


def disabled():
    """ESCAPEMENT_DISABLE=1: every graph runs as eager would run it."""
    return WORDS.get(os.environ.get("ESCAPEMENT_DISABLE", "0").strip().lower(), True)


def find(rows, name, what):
    if name not in rows:
        raise OptionError(f"unknown {what}: {name!r}{near(str(name), rows)} (python -m escapement options lists all)")
    return rows[name]


def near(name, known):
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def parsed(row, text):
    """A string from the environment as the type of the row."""
    if row.type == "str":
        return text
    if row.type == "bool":
        value = WORDS.get(text.lower())
        if value is None:
            raise OptionError(f"option {row.name!r} is a bool; {text!r} is none of {', '.join(WORDS)}")
        return value
    try:
        return TYPES[row.type](text)
    except ValueError:
        raise OptionError(f"option {row.name!r} is of type {row.type}; {text!r} is not") from None


def checked(row, value):
    """The value, if its type is the row's. An int may stand for a float; a bool never stands for an int."""
    if row.type == "float" and type(value) is int:
        value = float(value)
    if type(value) is not TYPES[row.type]:
        raise OptionError(f"option {row.name!r} is of type {row.type}; got {value!r} ({type(value).__name__})")
    if row.choices and value not in row.choices:
        choices = ", ".join(map(str, row.choices))
        raise OptionError(f"option {row.name!r} takes one of {choices}; got {value!r}{near(str(value), map(str, row.choices))}")
    if row.type == "str":
        check_names(row, value)
    return value


def check_names(row, value):
    """Texts that name something are looked up by the core, which has the tables."""
    try:
        getattr(core(), "check_option", lambda *_: None)(row.name, value)
    except RuntimeError as error:
        raise OptionError(str(error)) from None
