"""explain(fn)(*args): what was compiled and why it is not one program, as text (report_text.py) or as data (facts.py)."""

import functools
import json

import torch

from .facts import function_facts, versions
from .ledger import LEDGER
from .report_text import function_lines, timing_lines
from .tracer.jitted import Jitted
from .tracer.replayed import Replayed


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

    def timings(self):
        return "no timings\n"   # a segment's steps are not timed


def explain(fn, **compile_options):
    """A callable that runs `fn` (compiled here unless it is already) and returns the Report; the result is `report.result`."""
    if not callable(fn):
        raise TypeError(f"escapement.explain takes a function or module, compiled or not, not {type(fn).__name__}")

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
