"""By what calls were answered. A test that compares with eager only passes where everything runs eagerly, so it makes each call twice, which leaves
nothing to record the second time, and says which of those may not be served.

    compiled = Counted(function, mode=mode)
    for n in compiled.twice(sizes):
        ... compiled(x) ...
    compiled.expect()   # the second time compiled code served each, or it raised

What a recording answers is eager's own answer, so the first round says little; what comes of one is seen in the second.
"""

import collections

import escapement
from escapement.core import core
from escapement.ledger import LEDGER
from escapement.tracer.jitted import Jitted

# Counters that say what a call did, not why it did nothing.
WORK = {"calls", "hits", "misses", "recordings", "recompiles", "specialisations", "exits", "kernels_compiled", "kernels_shared", "kernels_tuned", "guards_compiled",
        "launches", "library_calls", "matched_operators", "side_traces", "compile_nanoseconds", "eager_calls"}


def counters(made):
    eager = LEDGER.function(made).eager if isinstance(made, Jitted) else {}
    return {**core().stats(), **eager}


def answer(before, after, raised):
    """served, by compiled code; raised; recorded; nothing, where there was nothing to do; or why it ran eagerly."""
    moved = {name for name, count in after.items() if count != before.get(name, 0)}
    if "hits" in moved and "eager_calls" not in moved:
        return "served"
    if raised:
        return "raised"
    reasons = sorted(moved - WORK)
    return " ".join(reasons) or ("recorded" if "recordings" in moved else "nothing")


def outcome(call, *args):
    """The result, or the kind of what it raised."""
    try:
        return call(*args)
    except Exception as error:
        return type(error)


class Counted:
    """escapement.jit(function, **options), counted."""

    def __init__(self, function, **options):
        self.made = escapement.jit(function, **options)
        self.rounds = collections.Counter(), collections.Counter()
        self.round = self.rounds[0]

    def __call__(self, *args, **kwargs):
        before, raised = counters(self.made), True
        try:
            result = self.made(*args, **kwargs)
            raised = False
            return result
        finally:
            self.round[answer(before, counters(self.made), raised)] += 1

    def __getattr__(self, name):
        return getattr(self.made, name)

    def twice(self, calls, before=1):
        """`before`: so often without the last, whose answers are looked at."""
        for self.round in (*self.rounds[:1] * before, self.rounds[1]):
            yield from calls
        assert sum(self.rounds[1].values()), "nothing was called"

    def rest(self):
        """What became of the calls of the second round that were neither served nor raised, as in eager."""
        return set(self.rounds[1]) - {"served", "raised"}

    def expect(self, *reasons):
        """The only reasons for which a call may run eagerly where its like came before."""
        assert self.rest() <= set(reasons), self.rounds
