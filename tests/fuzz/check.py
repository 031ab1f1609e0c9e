"""One program, one way: run against eager at every call, and the first difference told."""

import dataclasses

import torch

from arguments import drawn
from compare import EXTREMES, Judge, Outcome
from exact import TWO_ANSWERS, OneAnswer
from known import LIMITS, READ_NUMBERS
from memory import lacked_memory, little_memory
from other_nans import OtherNans
from rounded import Rounded, off_by_roundings
from states import TRANSFORMS, disturbed
from ways import WAYS, Refused


SPARE = 64 << 20   # bytes that all calls may take in eager: the Kronecker product of 129 rows, sorted and compared, takes minutes


@dataclasses.dataclass(frozen=True)
class Difference:
    way: str
    kind: str
    text: str
    call: int = -1


def check(program, way):
    """The first Difference, or None."""
    found = compared(program, way)
    if found and is_limit(program, way, found.kind):
        return None
    if found and found.kind != "internal error" and any(compared(program, control) for control in controls(WAYS[way], found)):
        return None
    return found


def controls(way, found):
    return (*way.controls, *(way.controls_of_strides if found.kind == "strides" else ()))


def is_limit(program, way, kind):
    """A limit that the documentation states; those of replay mode are also call mode's, whose functions may go on there."""
    if any((way, k) in LIMITS and LIMITS[way, k].search(program.source()) for k in ("", kind)):
        return True
    return way == "call" and is_limit(program, "replay", kind) and compared(program, "replay") is not None


def compared(program, way):
    try:
        made = WAYS[way](program)
    except Refused:
        return None
    judge, function = Judge(program, made.reference is not None), made.reference or program.function()
    with little_memory(SPARE):
        expected = [Outcome(function, drawn(program.arguments, call), call.get("mode", "no_grad")) for call in program.calls]
    if any(lacked_memory(eager.error) for eager in expected):
        return None
    found = differing(made, program, judge, expected)
    if found is None and (trouble := made.trouble()):
        found = Difference(way, *trouble)
    return found or differing_again(made, program, judge, expected)


def differing(made, program, judge, expected):
    for number, (call, eager) in enumerate(zip(program.calls, expected)):
        ours = Outcome(disturbed(made, program, call), drawn(program.arguments, call), call.get("mode", "no_grad"))
        if lacked_memory(ours.error):
            return None
        found = looked_at(judge, ours, eager, lambda: finer(made, program, call))
        if found and found[0] in ("values", "plain value") and (rounded := rounded_paths(made, program, call, eager)):
            found = looked_at(judge.with_near(rounded), ours, eager, lambda: finer(made, program, call))
        if found and (is_as_exact(made, program, judge, call, ours) or is_of_nans(made, program, call, eager, found)):
            continue
        if found and is_steady(made, program, call, eager) and not is_sensitive(made, program, call, eager, found):
            return Difference(made.name, *found, number)
    return None


def is_interrupted(program):
    """Somewhere, and where is another place each time: a recording that ended there is made when the call comes again."""
    return any(call.get("state") == "interrupt" for call in program.calls)


def differing_again(made, program, judge, expected):
    """The same calls once more: now all is there, so nothing is recorded, and what was recorded in the first pass is run."""
    before = made.recordings()
    found = differing(made, program, judge, expected)
    now = made.recordings()
    grew = before is not None and now is not None and now > before and not is_interrupted(program)
    if found is None and grew and not reads_near_numbers(made, program) and not has_empty_tensors(program):
        return Difference(made.name, "recorded again", f"{before} recordings, {now} when the same calls came again; {made.story()}")
    return found


def run_eagerly(program, way):
    """Every call as eager makes it, and a look at its results: what of this hangs, or ends the process, is the program's."""
    made = WAYS[way](program)
    for call in program.calls:
        eager = Outcome(made.reference or program.function(), drawn(program.arguments, call), call.get("mode", "no_grad"))
        looked_at(Judge(program, made.reference is not None), eager, eager)


EAGER_AGAIN = 3
MOVED = 8   # times, as far as a rounding may decide alone


def is_steady(made, program, call, eager):
    """Whether eager itself repeats its results: those that read memory which nobody has written (the median of an expanded axis) do not."""
    function = made.reference or program.function()
    again = (Outcome(function, drawn(program.arguments, call), call.get("mode", "no_grad")) for _ in range(EAGER_AGAIN))
    return not any(looked_at(Judge(program, made.reference is not None), other, eager) for other in again)


def is_sensitive(made, program, call, eager, found):
    """Whether what differs is no better known to eager: of a result that may be off by roundings, arguments that are off by a few, or what operators
    that round make of them, change as much."""
    kind, text = found
    path = text.split(":")[0].split(" ")[0]
    if not path.startswith("result") or not Judge(program, made.reference is not None).is_near(path):
        return False
    function, mode = made.reference or program.function(), call.get("mode", "no_grad")
    ways = [(function, lambda seed: off_by_roundings(drawn(program.arguments, call), seed))]
    if mode not in TRANSFORMS:
        ways.append((Rounded.function(function), lambda seed: drawn(program.arguments, call)))
    moved = (Outcome(way, arguments(seed), mode) for way, arguments in ways for seed in range(MOVED))
    seen = (looked_at(Judge(program, made.reference is not None), other, eager) for other in moved)
    return any(other and other[0] == kind and other[1].startswith(path) for other in seen)


def is_as_exact(made, program, judge, call, ours):
    """Whether it is what eager gives where it has one answer only."""
    mode = call.get("mode", "no_grad")
    if mode in TRANSFORMS or not TWO_ANSWERS.search(program.source()):
        return False
    eager = Outcome(OneAnswer.function(made.reference or program.function()), drawn(program.arguments, call), mode)
    return eager.error is None and looked_at(judge, ours, eager, lambda: finer(made, program, call)) is None


def is_of_nans(made, program, call, eager, found):
    """Whether a result differs that eager would also have otherwise if its NaNs were others."""
    kind, text = found
    mode = call.get("mode", "no_grad")
    if kind not in ("values", "plain value") or mode in TRANSFORMS:
        return False
    other = Outcome(OtherNans.function(made.reference or program.function()), drawn(program.arguments, call), mode)
    paths = Judge(program, made.reference is not None).paths_of_other_values(other, eager)
    return text.split(":")[0].split(" ")[0] in paths


def rounded_paths(made, program, call, eager):
    """The values that roundings of operators reach, by whatever name or view: these are compared by tolerance, too. What a program says of its names is
    written down before it is cut down, and for the sizes that it was drawn at."""
    function, mode = made.reference or program.function(), call.get("mode", "no_grad")
    if mode in TRANSFORMS:
        return frozenset()
    moved = Outcome(Rounded.function(function), drawn(program.arguments, call), mode)
    return Judge(program, made.reference is not None).paths_of_other_values(moved, eager)


def finer(made, program, call):
    """Eager in double precision, or None. What integers give when they are divided is double precision there, too."""
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        return Outcome(made.reference or program.function(), drawn(program.arguments, call, wide=True), call.get("mode", "no_grad"))
    except Exception:   # an alias that double precision does not have
        return None
    finally:
        torch.set_default_dtype(before)


def reads_near_numbers(made, program):
    """The host got a number that ours may miss by a rounding, or that is not a number in another way, or the other zero."""
    return READ_NUMBERS in made.story() or program.reads_host() and bool(program.near or EXTREMES.search(program.source()))


def has_empty_tensors(program):
    """What addresses nothing ATen lays out as it likes; where the program sees that, it may be recorded once more."""
    return any(value == 0 for call in program.calls for name, value in call.items() if name in ("n", "m", "h"))


def looked_at(judge, ours, eager, fine=lambda: None):
    try:
        return judge.difference(ours, eager, fine)
    except Exception as error:
        return None if lacked_memory(error) else ("a result cannot be looked at", f"{type(error).__name__}: {error}")
