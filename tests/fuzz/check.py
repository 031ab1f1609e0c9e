"""One program, one way: run against eager at every call, and the first difference told."""

import dataclasses

import torch

from arguments import drawn
from compare import Judge, Outcome
from ways import WAYS


@dataclasses.dataclass(frozen=True)
class Difference:
    way: str
    kind: str
    text: str
    call: int = -1


def check(program, way):
    """The first Difference, or None."""
    made, judge = WAYS[way](program), Judge(program)
    function = program.function()
    for number, call in enumerate(program.calls):
        mode = call.get("mode", "no_grad")
        eager = Outcome(function, drawn(program.arguments, call), mode)
        ours = Outcome(made, drawn(program.arguments, call), mode)
        found = judge.difference(ours, eager)
        if found:
            return Difference(way, *found, number)
    trouble = made.trouble()
    return Difference(way, *trouble) if trouble else None
