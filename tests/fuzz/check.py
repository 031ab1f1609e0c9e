"""One program, one way: run against eager at every call, and the first difference told."""

import dataclasses

import torch

from arguments import drawn
from compare import Judge, Outcome
from states import disturbed
from ways import WAYS, Refused


@dataclasses.dataclass(frozen=True)
class Difference:
    way: str
    kind: str
    text: str
    call: int = -1


def check(program, way):
    """The first Difference, or None."""
    found = compared(program, way)
    if found and found.kind != "internal error" and any(compared(program, control) for control in WAYS[way].controls):
        return None
    return found


def compared(program, way):
    try:
        made = WAYS[way](program)
    except Refused:
        return None
    judge, function = Judge(program, made.reference is not None), made.reference or program.function()
    for number, call in enumerate(program.calls):
        mode = call.get("mode", "no_grad")
        eager = Outcome(function, drawn(program.arguments, call), mode)
        ours = Outcome(disturbed(made, program, call), drawn(program.arguments, call), mode)
        found = looked_at(judge, ours, eager)
        if found:
            return Difference(way, *found, number)
    trouble = made.trouble()
    return Difference(way, *trouble) if trouble else None


def looked_at(judge, ours, eager):
    try:
        return judge.difference(ours, eager)
    except Exception as error:
        return "a result cannot be looked at", f"{type(error).__name__}: {error}"
