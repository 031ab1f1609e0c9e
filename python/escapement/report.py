"""explain(fn)(*args): what was compiled and why it is not one program, as text or as data.

The text has one fact a line, in a fixed order, without addresses or times, so that it can be compared with a stored one; facts
that read the same become one line with a count. Times stand in a section of their own (`timings()`). The data comes from the
ledger (Dynamo's side) and from `region.info()` (the core's side); nothing is computed here that one of the two does not say.
"""

import collections
import functools
import json
import os
import re

import torch

from .jitted import REASONS, Jitted
from .ledger import COMPILES, LEDGER, size_name
from .misses import LOCAL
from .replayed import Replayed

# How the core writes where a symbol comes from: an argument by its number, then what of it.
ARGUMENT = re.compile(r"arg(\d+)((?:\.\w+(?:\[\d+\])?)?)")


class Report:
    """What is known about a set of functions. str() is the stable part."""

    def __init__(self, functions, result=None):
        self.functions = [function_facts(function) for function in functions]
        self.result = result

    def to_json(self, **options):
        return json.dumps({"functions": self.functions}, default=str, **options)

    def __str__(self):
        if not self.functions:
            return "nothing was compiled\n"
        return "\n".join(line for facts in self.functions for line in function_lines(facts)) + "\n"

    __repr__ = __str__

    def timings(self):
        """Milliseconds of each step, in the order in which the steps run."""
        lines = [line for facts in self.functions for line in timing_lines(facts)]
        return "\n".join(lines) + "\n" if lines else "no timings\n"


class StreamReport:
    """What is known about a function in replay mode."""

    def __init__(self, function, result):
        self.functions, self._text, self.result = [function.info()], function.text(), result

    def to_json(self, **options):
        return json.dumps({"functions": self.functions}, default=str, **options)

    def __str__(self):
        return self._text

    __repr__ = __str__


def explain(fn, **compile_options):
    """A callable that runs `fn` (compiled here unless it is already) and returns the Report; the result is `report.result`."""
    @functools.wraps(fn, updated=())
    def run(*args, **kwargs):
        from .backend import escapement

        compiled = fn if is_compiled(fn) else torch.compile(fn, backend=escapement, **compile_options)
        if isinstance(compiled, Replayed):
            return StreamReport(compiled, compiled(*args, **kwargs))
        if isinstance(compiled, Jitted):
            compiled.enroll()
        before = activity()
        result = compiled(*args, **kwargs)
        return Report(touched(before), result)

    return run


def is_compiled(fn):
    return isinstance(fn, (Jitted, Replayed)) or isinstance(fn, torch.nn.Module) and hasattr(fn, "_orig_mod") or hasattr(fn, "_torchdynamo_orig_callable")


def activity():
    return {id(function): work_done(function) for function in LEDGER.functions()}


def work_done(function):
    """Changes when the function is compiled, skipped, or one of its regions runs."""
    return (len(function.compiles), len(function.skips), len(function.breaks), function.refusals, sum(function.eager.values()),
            tuple(map(runs, function.regions())))


def runs(region):
    info = region.info()
    return info.get("recordings", 0) + sum(info.get("fallbacks", {}).values()) + sum(v.get("hits", 0) for v in versions(info))


def touched(before):
    return [function for function in LEDGER.functions() if before.get(id(function)) != work_done(function)]


def versions(info):
    return info.get("versions", ())


# --- facts: what to_json() writes

def function_facts(function):
    return {
        "name": function.name,
        "where": f"{os.path.basename(function.file)}:{function.line}",
        "budget": COMPILES,
        "compiles": [compile_facts(function, compiled) for compiled in function.compiles],
        "escapes": [escape_facts(function, escapes) for escapes in by_identity(function)],
        "given_up": sorted({source for sources in function.given_up.values() for source in sources}),
        "graph_breaks": list(function.breaks),
        "skipped": list(function.skips),
        "refused_calls": function.refusals,
        "eager": {reason: {"calls": calls, "detail": function.details.get(reason, "")} for reason, calls in function.eager.items()},
        "regions": [{**region.info(), "inputs": list(inputs)} for region, inputs, _ in function.regions_and_inputs()],
    }


def compile_facts(function, compiled):
    return {
        "number": compiled.number,
        "key": compiled.key,
        "cause": cause_facts(compiled.cause),
        "misses": [miss._asdict() for miss in compiled.misses],
        "capture_ms": compiled.capture_ms,
        "input_dims": compiled.dims,
        "specialised": [pinned._asdict() for pinned in compiled.pinned],
        "escapes": [relation_facts(escape) for escape in compiled.escapes],
        "guards": [relation_facts(guard) for guard in compiled.guards],
        "constants": list(compiled.constants),
        "dims": [str(fact) for fact in compiled.declared if fact.said],
    }


def cause_facts(cause):
    return {"kind": cause.kind, "relation": cause.escape.relation if cause.escape else None,
            "where": cause.escape.where if cause.escape else None}


def relation_facts(escape):
    return {"expr": escape.expr, "relation": escape.relation, "where": escape.where, "file": escape.place.file,
            "line": escape.place.line, "function": escape.place.function, "text": escape.place.text, "kind": escape.kind,
            "seen": dict(escape.seen), "path": list(escape.path), "sources": list(escape.sources), "fix": fix(escape)}


def by_identity(function):
    """The escapes of all compiles; one read that found another value each time is one escape."""
    groups = {}
    for compiled in function.compiles:
        for escape in compiled.escapes:
            groups.setdefault(escape.identity, []).append(escape)
    return list(groups.values())


def escape_facts(function, escapes):
    """One escape over all compiles, with what it cost: the compiles it was the reason for, and all that they brought with them."""
    caused = [compiled for compiled in function.compiles
              if compiled.cause.escape is not None and compiled.cause.escape.identity == escapes[0].identity]
    versions = {(compiled.key, compiled.number) for compiled in caused}
    infos = [region.info() for region, _, version in function.regions_and_inputs() if compile_of(function, version) in versions]
    milliseconds = sum(compiled.capture_ms for compiled in caused) + sum(map(core_milliseconds, infos))
    return {**relation_facts(escapes[0]), "relations": list(dict.fromkeys(escape.relation for escape in escapes)),
            "cost": {"compiles": len(versions), "recordings": sum(info.get("recordings", 0) for info in infos), "ms": milliseconds}}


def compile_of(function, version):
    return (list(function.budgets).index(version[0]), version[1]) if version is not None else None


def core_milliseconds(info):
    return sum(value for version in versions(info) for _, value in timing_facts(version))


def fix(escape):
    """The cheapest change of the program (or of the call) after which this does not cost a compile."""
    return FIXES[escape.kind].format(sizes=" and ".join(map(spoken, escape.sources)) or "the value", relation=spoken(escape.relation))


FIXES = {
    "branch": "if it always holds, say so: torch._check({relation}); if both sides are needed, torch.where or torch.cond keep them in "
              "one program",
    "exact value": "hand {sizes} to torch operations only (arange, new_zeros, reshape, repeat take it as a symbol); if it never changes, "
                   "torch._dynamo.mark_static says so",
    "framework": "call with sizes for which it holds, or say so: torch._check({relation})",
}


def spoken(text):
    """L['x']:0 and L['x'].size(0) as the program writes it: x.size(0)."""
    return LOCAL.sub(r"\1", size_name(text))


# --- text

def function_lines(facts):
    yield f"function {facts['name']} ({facts['where']})"
    for compiled in facts["compiles"]:
        yield from indent(compile_lines(compiled, facts["budget"]))
    for escape in facts["escapes"]:
        yield from indent(escape_lines(escape))
    for source in facts["given_up"]:
        yield f"  host value from now on: {size_name(source)} (the budget of {facts['budget']} compiles is spent)"
    for reason in facts["graph_breaks"]:
        yield f"  graph break: {reason}"
    for reason in facts["skipped"]:
        yield f"  not compiled: {reason}"
    if facts["refused_calls"]:
        yield f"  run eagerly: {facts['refused_calls']} calls that no version takes (the budget of {facts['budget']} compiles is spent)"
    for name, fact in sorted(facts["eager"].items()):
        detail = f": {fact['detail']}" if fact["detail"] else ""
        yield f"  eager: {REASONS[name]} ({name}, {fact['calls']} calls){detail}"
    for info in facts["regions"]:
        yield from indent(region_lines(info))


def compile_lines(compiled, budget):
    dynamic = compiled["input_dims"] - len(compiled["specialised"])
    number = compiled["number"] + 1
    ordinal = f"{number} of {budget}" if number <= budget else f"{number} (after the budget)"
    key = f" for another rank, dtype, layout or grad mode (key {compiled['key'] + 1})" if compiled["key"] else ""
    yield f"compile {ordinal}{key}: {dynamic} of {compiled['input_dims']} input dims are dynamic"
    for miss in compiled["misses"]:
        yield f"  because version {miss['version']} expected {miss['expected'] or miss['guard']}, seen {miss['seen'] or 'another'}"
    for pinned in compiled["specialised"]:
        yield f"  specialised: {pinned['source']}.size({pinned['dim']}) == {pinned['value']}: {short_path(pinned['why'])}"
    for escape in compiled["escapes"]:
        sources = ", ".join(map(size_name, escape["sources"])) or "no input"
        yield f"  escape: {escape['relation']} at {short_path(escape['where'])}, from {sources}"
    for guard in compiled["guards"]:
        yield f"  guard: {guard['relation']} at {short_path(guard['where'])}"
    for constant in compiled["constants"]:
        yield f"  constant: {short_path(constant)}"
    for fact in compiled["dims"]:
        yield f"  dim: {short_path(fact)}"


def escape_lines(escape):
    """What the escapes of single compiles have in common."""
    cost, seen = escape["cost"], ", ".join(f"{name} = {value}" for name, value in escape["seen"].items())
    yield f"{escape['kind']} at {short_path(escape['where'])}"
    yield f"  path: {' -> '.join(escape['path'])}; first seen: {seen}"
    yield f"  cost: {cost['compiles']} compiles, {cost['recordings']} recordings"
    yield f"  fix: {escape['fix']}"


def region_lines(info):
    yield f"region {info['name']}: {info.get('recordings', 0)} recordings, {len(versions(info))} versions"
    for i, version in enumerate(versions(info)):
        yield from indent(version_lines(i, version, info.get("inputs", ())))
    for miss in info.get("misses", ()):
        yield f"  miss: {with_names(miss, info.get('inputs', ()))}"
    for reason, times in sorted(info.get("fallbacks", {}).items()):
        yield f"  fallback: {reason} ({times} times)"


def version_lines(i, version, inputs):
    yield (f"version {i}: {version.get('ops', 0)} ops, {len(version.get('kernels', ()))} kernels, "
           f"{len(version.get('calls', ()))} calls, {version.get('hits', 0)} hits")
    for section, line in SECTIONS.items():
        yield from indent(counted(line(fact, inputs) for fact in version.get(section, ())))


def symbol_line(fact, inputs):
    return f"symbol {fact['symbol']}: {with_names(fact['source'], inputs)}"


def guard_line(fact, inputs):
    when = "at entry" if fact["at_entry"] else "while running"
    return f"guard {fact['guard']}, {when}: {fact['because']}{place(fact)}"


def kernel_line(fact, inputs):
    launches = f" ({fact['launches']} launches)" if fact["launches"] != 1 else ""
    return f"kernel {fact['name']}: {', '.join(fact['ops'])}{launches}"


def call_line(fact, inputs):
    return f"left to ATen: {fact['target']}: {reason(fact)}{place(fact)}"


def apart_line(fact, inputs):
    return f"apart: {op_name(fact['producer'])} | {op_name(fact['consumer'])}: {reason(fact)}"


# The sections of a version in region.info(), in the order in which they are printed.
SECTIONS = {"symbols": symbol_line, "guards": guard_line, "kernels": kernel_line, "calls": call_line, "apart": apart_line}


def reason(fact):
    """The reason's message where the core says it, and always its name."""
    return f"{fact['message']} ({fact['reason']})" if fact.get("message") else fact["reason"]


def op_name(value):
    """"%3 add" is the value and the op that makes it; an input has no op."""
    return value.partition(" ")[2] or "input"


def place(fact):
    return f" at {short_path(fact['location'])}" if fact.get("location") else ""


def short_path(text):
    """Packages by their names, whatever folder they are installed in."""
    return re.sub(r"\S*/(?:site|dist)-packages/", "", text)


def with_names(text, inputs):
    """arg1.size[0] as the user knows it: L['x'].size(0)."""
    def named(found):
        number = int(found[1])
        base = inputs[number] if number < len(inputs) else f"arg{number}"
        return base + found[2].replace("[", "(").replace("]", ")")

    return ARGUMENT.sub(named, text)


def counted(lines):
    """Equal lines once, where the first stood, with their number."""
    for line, times in collections.Counter(lines).items():
        yield f"{line} (x{times})" if times > 1 else line


def indent(lines):
    return ("  " + line for line in lines)


# --- times

def timing_lines(facts):
    for compiled in facts["compiles"]:
        yield f"{facts['name']} compile {compiled['number'] + 1}: capture by Dynamo {compiled['capture_ms']:.1f} ms"
    for escape in facts["escapes"]:
        yield f"{facts['name']} {escape['kind']} at line {escape['line']}: cost {escape['cost']['ms']:.1f} ms"
    for info in facts["regions"]:
        for i, version in enumerate(versions(info)):
            for name, value in timing_facts(version):
                yield f"{info['name']} version {i}: {name} {value:.2f} ms"


def timing_facts(version):
    recorded = [("recording", version["record_ms"])] if "record_ms" in version else []
    return recorded + list(version.get("timings", {}).items())
