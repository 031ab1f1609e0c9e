"""A compile makes some hundred thousand objects, nearly all of which live until its end, and the collector of garbage looks through them, and through all
that the program holds, again and again: a third of the time that a BERT takes. While a compile of ours goes on it looks more rarely."""

import contextlib
import gc

from ..limits import NEW_OBJECTS

under_way = set()           # of all threads, for the collector has one setting; each change of it is one step of the interpreter
setting = {"before": None}   # the program's, while it is ours


@contextlib.contextmanager
def looked_at_rarely():
    mine = object()
    under_way.add(mine)
    begin()
    try:
        yield
    finally:
        under_way.discard(mine)
        if not under_way:
            end()


def begin():
    now = gc.get_threshold()
    if 0 < now[0] < NEW_OBJECTS:   # 0: the program wants no collections
        setting["before"] = now
        gc.set_threshold(NEW_OBJECTS, *now[1:])


def end():
    """What the program has set meanwhile stays."""
    before, setting["before"] = setting["before"], None
    if before is not None and gc.get_threshold() == (NEW_OBJECTS, *before[1:]):
        gc.set_threshold(*before)
