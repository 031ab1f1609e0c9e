"""What the ledger and the core know of a function, as data: what explain(fn)(*args).to_json() writes, and the artifact of each compile.

Nothing is computed here that the ledger (Dynamo's side) or `region.info()` (the core's side) does not say.
"""

import os

from .ledger import size_name
from .limits import COMPILES
from .misses import LOCAL


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
        "refused": dict(function.refused),
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


# --- what the core says of a region

def versions(info):
    return info.get("versions", ())


def timing_facts(version):
    recorded = [("recording", version["record_ms"])] if "record_ms" in version else []
    return recorded + list(version.get("timings", {}).items())
