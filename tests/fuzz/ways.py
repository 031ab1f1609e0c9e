"""The ways to run a program: what makes it from the function, and what is asked of its counters afterwards."""

import re

import torch

import escapement

PINNED = re.compile(r"size\[\d+\]: expected (?!0|1\b)\d+\b")   # a size for which nobody asked is another recording
OURS = ("internal_error",)


class Way:
    """Compiled by `make`; `trouble` names what the counters say and no result shows."""

    share = 1.0

    def __init__(self, program):
        self.program, self.made = program, self.make(program.function(), dict(program.options))

    def __call__(self, *args):
        return self.made(*args)

    def trouble(self):
        return None


class Call(Way):
    name = "call"

    def make(self, function, options):
        return escapement.jit(function, **options)

    def trouble(self):
        info = self.made.info()
        reasons = {reason: what for region in info["regions"] for reason, what in fallbacks(region).items()}
        for reason in OURS:
            if reason in reasons:
                return "internal error", str(reasons[reason])
        steady = not self.program.reads_host() and not reasons and not info["eager"]
        if steady and any(PINNED.search(line) for region in info["regions"] for miss in region["misses"] for line in miss):
            return "recorded anew", f"{info['recordings']} recordings, {misses(info)}"
        return None


class Replay(Way):
    name = "replay"

    def make(self, function, options):
        return escapement.jit(function, mode="replay", **options)

    def trouble(self):
        reasons = fallbacks(self.made.info())
        return next((("internal error", str(reasons[reason])) for reason in OURS if reason in reasons), None)


class Compile(Way):
    """Through Dynamo. What `backend="eager"` does otherwise than eager is Dynamo's."""

    name = "compile"

    def make(self, function, options):
        torch._dynamo.reset()
        return torch.compile(function, backend="escapement", **({"options": options} if options else {}))

    def trouble(self):
        reasons = escapement.stats()
        return None


class Plain(Way):
    """Dynamo alone."""

    name = "dynamo"

    def make(self, function, options):
        torch._dynamo.reset()
        return torch.compile(function, backend="eager")


def fallbacks(info):
    found = info.get("fallbacks", {})
    return found if isinstance(found, dict) else {entry["reason"]: entry for entry in found}


def misses(info):
    return [region.get("misses") for region in info["regions"]]


WAYS = {way.name: way for way in (Call, Replay, Compile, Plain)}
