"""Cuts a failing program down as long as it fails the same way: fewer calls, steps, results and arguments, simpler inputs."""

import dataclasses
import re
import time

from arguments import TENSOR
from program import NAME, Program

SIZES = (0, 1, 2, 3, 5)
PLAIN = {"seed": 0, "mode": "no_grad", "state": ""}   # of a call, what is no size


def without_step(program, index):
    """Later uses of what the step made become uses of what it was made from."""
    step = program.steps[index]
    operands = [name for name in step.operands() if name in program.arguments or name.startswith("v")]
    for replacement in [None, *dict.fromkeys(operands)]:
        steps = program.steps[:index] + program.steps[index + 1:]
        if not step.target:
            if replacement is None:
                yield dataclasses.replace(program, steps=steps)
            continue
        used = re.compile(rf"\b{step.target}\b(\[\d+\](?!\s*=))?")
        if replacement is None:
            if not any(used.search(s.text) for s in steps) and not any(used.search(r) for r in program.results):
                yield dataclasses.replace(program, steps=steps)
            continue
        steps = tuple(dataclasses.replace(s, text=used.sub(replacement, s.text)) for s in steps)
        results = tuple(dict.fromkeys(used.sub(replacement, r) for r in program.results))
        near = program.near | {replacement} if program.near & {step.target} else program.near
        yield dataclasses.replace(program, steps=steps, results=results, near=near)


def fewer_results(program):
    for i in range(len(program.results)):
        if len(program.results) > 1:
            yield dataclasses.replace(program, results=program.results[:i] + program.results[i + 1:])


def fewer_calls(program):
    if len(program.calls) > 2:
        for half in (program.calls[: len(program.calls) // 2], program.calls[len(program.calls) // 2:]):
            yield dataclasses.replace(program, calls=half)
    for i in range(len(program.calls)):
        if len(program.calls) > 1:
            yield dataclasses.replace(program, calls=program.calls[:i] + program.calls[i + 1:])


def fewer_arguments(program):
    text = " ".join([*(s.text for s in program.steps), *program.results, *(t for t in program.arguments.values() if t.startswith("="))])
    used = set(NAME.findall(text))
    for name in program.arguments:
        if name not in used and len(program.arguments) > 1:
            yield dataclasses.replace(program, arguments={n: t for n, t in program.arguments.items() if n != name})


def simpler_arguments(program):
    for name, text in program.arguments.items():
        parts = TENSOR.fullmatch(text)
        if not parts:
            continue
        dtype, sizes, layout, values = parts["dtype"], parts["sizes"], parts["layout"], parts["values"]
        changes = [("float32", sizes, layout, values), (dtype, sizes, "contiguous", values), (dtype, sizes, layout, "grid"),
                   (dtype, "n, m", layout, values), (dtype, "n", layout, values), (dtype, "n, n", layout, values)]
        for change in changes:
            if change != (dtype, sizes, layout, values) and (change[1] == sizes or len(change[1]) < len(sizes)):
                shorter = "{} [{}] {} {}".format(*change)
                yield dataclasses.replace(program, arguments={**program.arguments, name: shorter})


def simpler_calls(program):
    for i, call in enumerate(program.calls):
        for name, value in call.items():
            if name in PLAIN or isinstance(value, (bool, float)):
                simple = PLAIN.get(name)
                if simple is not None and value != simple:
                    yield with_call(program, i, {**call, name: simple})
                continue
            for size in SIZES:
                if size < value:
                    yield with_call(program, i, {**call, name: size})


def with_call(program, index, call):
    return dataclasses.replace(program, calls=(*program.calls[:index], call, *program.calls[index + 1:]))


def candidates(program):
    yield from fewer_calls(program)
    for index in reversed(range(len(program.steps))):
        yield from without_step(program, index)
    yield from fewer_results(program)
    yield from fewer_arguments(program)
    yield from simpler_arguments(program)
    yield from simpler_calls(program)


def shrunk(program, fails, seconds=20.0):
    """The smallest program found for which `fails(program)`."""
    end, progress = time.monotonic() + seconds, True
    program = dataclasses.replace(program)
    while progress and time.monotonic() < end:
        progress = False
        for candidate in candidates(program):
            if time.monotonic() > end:
                break
            if fails(candidate):
                program, progress = candidate, True
                break
    return cleaned(program)


def cleaned(program):
    """Calls without what no argument uses."""
    text = " ".join(program.arguments.values())
    used = set(re.findall(r"\b[a-z]\b", text)) | set(program.arguments) | set(PLAIN)
    return dataclasses.replace(program, calls=tuple({k: v for k, v in call.items() if k in used} for call in program.calls))
