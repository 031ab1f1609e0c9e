"""How much memory a piece of a program may take."""

import contextlib
import re
import resource

REFUSED = re.compile(r"can't allocate memory|tried to allocate \d{9,} bytes|bad_alloc|Unable to allocate")


@contextlib.contextmanager
def little_memory(spare):
    """What wants more bytes than `spare` raises."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    limit = mapped + spare
    resource.setrlimit(resource.RLIMIT_AS, (limit if soft == resource.RLIM_INFINITY else min(soft, limit), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def lacked_memory(error):
    return isinstance(error, MemoryError) or error is not None and REFUSED.search(str(error)) is not None
