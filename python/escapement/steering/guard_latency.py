"""Behind each compile torch measures how long its guards take, and empties the processor's caches first: 20 ms, a third of what Dynamo takes for a small
function. In a compile of ours they are timed as they are."""

import contextlib
import functools
import threading
import time

from torch._dynamo import guards

compiling = threading.local()   # .ours: whether this thread is in a compile of ours


def install(_):
    if hasattr(guards, "profile_guard_manager"):
        guards.profile_guard_manager = as_they_are(guards.profile_guard_manager)


@contextlib.contextmanager
def not_flushed():
    """Guards are made behind the tracing, when there is no session any more."""
    outer, compiling.ours = getattr(compiling, "ours", False), True
    try:
        yield
    finally:
        compiling.ours = outer


def as_they_are(profile):
    @functools.wraps(profile)
    def latency(root, scope, times):
        """In microseconds."""
        if not getattr(compiling, "ours", False):
            return profile(root, scope, times)
        begun = time.perf_counter_ns()
        root.check(scope)
        return (time.perf_counter_ns() - begun) / 1000

    return latency
