"""A program as data: arguments, steps of one line of Python each, results, and the calls that it is run with.

All of it is text, so that a failing program can be cut down line by line, printed as a module that anybody can read and change, and
read back from there (the corpus). Names: a, b, c .. are arguments, v0, v1 .. what the steps make.
"""

import ast
import dataclasses
import linecache
import math
import operator
import pprint
import re
import textwrap

import torch
import torch.nn.functional as F

NAME = re.compile(r"\b[a-hk-q]\b|\bv\d+\b")


def attempt(ask, otherwise):
    """What `ask` gives, or where it raises, the other."""
    try:
        return ask()
    except Exception:
        return otherwise


RESERVED = {"torch": torch, "F": F, "math": math, "operator": operator, "attempt": attempt}


@dataclasses.dataclass(frozen=True)
class Step:
    text: str            # a statement; its names are those of arguments and earlier steps
    target: str = ""     # the name that it binds, if it binds one
    host: bool = False   # host code asks for a size, a layout or a value: another answer may be another recording
    kind: str = ""       # the template that it came from, by which findings are told apart

    def operands(self):
        return [name for name in NAME.findall(self.text) if name != self.target]


@dataclasses.dataclass(frozen=True)
class Program:
    arguments: dict      # name -> text, see arguments.py
    steps: tuple         # of Step
    results: tuple       # expressions
    calls: tuple         # of dict: symbol or number -> value, "seed" -> int, "mode" -> name
    near: frozenset = frozenset()   # names whose values are compared by tolerance
    ways: tuple = ()     # of names of ways to run it; empty: all
    options: tuple = ()  # of pairs, for escapement
    note: str = ""

    def source(self):
        lines = [f"def program({', '.join(self.arguments)}):"]
        lines += [f"    {step.text}" for step in self.steps]
        return "\n".join([*lines, f"    return ({''.join(result + ', ' for result in self.results)})"]) + "\n"

    def function(self):
        return function_of(self.source())

    def reads_host(self):
        return any(step.host for step in self.steps)

    def kinds(self):
        return tuple(sorted(step.kind for step in self.steps))

    def module(self):
        """The text of a file of the corpus."""
        return module(self.note, self.source(), {"ARGUMENTS": self.arguments, "CALLS": list(self.calls), "NEAR": sorted(self.near),
                                                 "WAYS": list(self.ways), "OPTIONS": dict(self.options), "HOST": self.reads_host()})


IMPORTS = {"math.": "import math", "operator.": "import operator", "torch.": "import torch", "F.": "import torch.nn.functional as F",
           "attempt(": "from program import attempt"}


def module(note, source, settings):
    """What is not said is empty: no NEAR names, no OPTIONS, no questions of the HOST."""
    note = "\n".join(textwrap.wrap(note.replace('"', "'").replace("\\", "/"), 140))
    imports = [line for word, line in IMPORTS.items() if re.search(rf"\b{re.escape(word)}", source)]
    parts = [f"{name} = {pprint.pformat(value, width=140, sort_dicts=False)}" for name, value in settings.items() if value]
    return "\n".join([f'"""{note}"""', *([""] if imports else []), *imports, "", *parts, "", "", source])


def function_of(text):
    """The `program` that a text defines, with its lines for tracebacks and tracers."""
    file = f"<program {hash(text):x}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    scope = dict(RESERVED)
    exec(compile(text, file, "exec"), scope)
    return scope["program"]


class Kept:
    """A file of the corpus: what a Program is for whoever runs it."""

    def __init__(self, path):
        scope, text = {}, path.read_text()
        exec(compile(text, str(path), "exec"), scope)
        linecache.cache[str(path)] = len(text), None, text.splitlines(True), str(path)
        self.text, self.arguments, self.calls, self.program = text, scope["ARGUMENTS"], tuple(scope["CALLS"]), scope["program"]
        self.near, self.ways = frozenset(scope.get("NEAR", ())), tuple(scope.get("WAYS", ()))
        self.options, self.host = tuple(scope.get("OPTIONS", {}).items()), scope.get("HOST", False)
        self.results = results_of(text)

    def source(self):
        return self.text

    def function(self):
        return self.program

    def reads_host(self):
        return self.host


def results_of(text):
    """The expressions of the last return, so that those whose names are NEAR are compared by tolerance."""
    value = ast.parse(text).body[-1].body[-1].value
    return tuple(ast.unparse(element) for element in value.elts)
