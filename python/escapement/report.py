"""explain(fn)(*args): what was compiled and why it is not one program, as text or as data.

The text has one fact a line, in a fixed order, without addresses or times, so that it can be compared with a stored one. Times
stand in a section of their own that is printed on request. The data comes from the ledger (Dynamo's side) and from
`region.info()` (the core's side); nothing is computed here that one of the two does not say.
"""

import functools
import json
import os

import torch

from .ledger import COMPILES, LEDGER

# Sections of a version in region.info() that are lists of facts, in the order in which they are printed.
LISTS = (("symbols", "symbol"), ("guards", "guard"), ("kernels", "kernel"), ("calls", "call"), ("apart", "apart"))


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
        lines = [f"{info['name']} version {i}: {name} {value} ms" for facts in self.functions for info in facts["regions"]
                 for i, version in enumerate(versions(info)) for name, value in timing_facts(version)]
        return "\n".join(lines) + "\n" if lines else "no timings\n"


def versions(info):
    return info.get("versions", ())


def timing_facts(version):
    recorded = [("recording", version["record_ms"])] if "record_ms" in version else []
    return recorded + sorted(version.get("timings", {}).items())


def explain(fn, **compile_options):
    """A callable that runs `fn` (compiled here unless it is already) and returns the Report; the result is `report.result`."""
    @functools.wraps(fn, updated=())
    def run(*args, **kwargs):
        from .backend import escapement

        compiled = fn if is_compiled(fn) else torch.compile(fn, backend=escapement, **compile_options)
        before = activity()
        result = compiled(*args, **kwargs)
        return Report(touched(before), result)

    return run


def is_compiled(fn):
    return isinstance(fn, torch.nn.Module) and hasattr(fn, "_orig_mod") or hasattr(fn, "_torchdynamo_orig_callable")


def activity():
    return {id(function): work_done(function) for function in LEDGER.functions()}


def work_done(function):
    """Changes when the function is compiled, skipped, or one of its regions runs."""
    return len(function.compiles), len(function.skips), len(function.breaks), tuple(map(runs, function.regions()))


def runs(region):
    info = region.info()
    return info.get("recordings", 0) + sum(info.get("fallbacks", {}).values()) + sum(v.get("hits", 0) for v in versions(info))


def touched(before):
    return [function for function in LEDGER.functions() if before.get(id(function)) != work_done(function)]


def function_facts(function):
    return {
        "name": function.name,
        "where": f"{os.path.basename(function.file)}:{function.line}",
        "budget": COMPILES,
        "compiles": [compile_facts(compiled) for compiled in function.compiles],
        "given_up": sorted({source for sources in function.given_up.values() for source in sources}),
        "graph_breaks": list(function.breaks),
        "skipped": list(function.skips),
        "regions": [region.info() for region in function.regions()],
    }


def compile_facts(compiled):
    return {
        "number": compiled.number,
        "input_dims": compiled.dims,
        "specialised": [pinned._asdict() for pinned in compiled.pinned],
        "escapes": [{"expr": e.expr, "where": e.where, "sources": list(e.sources)} for e in compiled.escapes],
    }


def function_lines(facts):
    yield f"function {facts['name']} ({facts['where']})"
    for compiled in facts["compiles"]:
        yield from indent(compile_lines(compiled, facts["budget"]))
    for source in facts["given_up"]:
        yield f"  host value from now on: {size_name(source)} (the budget of {facts['budget']} compiles is spent)"
    for reason in facts["graph_breaks"]:
        yield f"  graph break: {reason}"
    for reason in facts["skipped"]:
        yield f"  not compiled: {reason}"
    for info in facts["regions"]:
        yield from indent(region_lines(info))


def compile_lines(compiled, budget):
    dynamic = compiled["input_dims"] - len(compiled["specialised"])
    number = compiled["number"] + 1
    ordinal = f"{number} of {budget}" if number <= budget else f"{number} (after the budget)"
    yield f"compile {ordinal}: {dynamic} of {compiled['input_dims']} input dims are dynamic"
    for pinned in compiled["specialised"]:
        yield f"  specialised: {pinned['source']}.size({pinned['dim']}) == {pinned['value']}: {pinned['why']}"
    for escape in compiled["escapes"]:
        sources = ", ".join(map(size_name, escape["sources"])) or "no input"
        yield f"  escape: {escape['expr']} at {escape['where']}, from {sources}"


def region_lines(info):
    yield f"region {info['name']}: {info.get('recordings', 0)} recordings, {len(versions(info))} versions"
    for i, version in enumerate(versions(info)):
        yield from indent(version_lines(i, version))
    for miss in info.get("misses", ()):
        yield f"  miss: {miss}"
    for reason, times in sorted(info.get("fallbacks", {}).items()):
        yield f"  fallback: {reason} ({times} times)"


def version_lines(i, version):
    yield f"version {i}: {version.get('ops', 0)} ops, {len(version.get('kernels', ()))} kernels, {len(version.get('calls', ()))} calls"
    for section, singular in LISTS:
        for fact in version.get(section, ()):
            yield f"  {singular}: {fact_text(fact)}"


def fact_text(fact):
    """A fact of the core is a string, or a flat record: its first field names it, the others follow where they say something."""
    if not isinstance(fact, dict):
        return str(fact)
    (_, first), *rest = fact.items()
    return " ".join([str(first), *(f"{name}={value_text(value)}" for name, value in rest if value not in ("", [], None))])


def value_text(value):
    return ",".join(map(str, value)) if isinstance(value, list) else str(value).lower() if isinstance(value, bool) else str(value)


def size_name(source):
    """"L['x']:0" as a person writes it: L['x'].size(0)."""
    base, colon, dim = source.rpartition(":")
    return f"{base}.size({dim})" if colon and dim.isdigit() else source


def indent(lines):
    return ("  " + line for line in lines)
