"""Something of Python's or torch's that is another while recordings run, in whatever thread: put there by the first, taken back by the last.

A signal's handler may raise between any two calls of what stands here. So `put` and `take_back` may each come twice, or with nothing to do; who holds
it is known by a token, which is given up first; and what an interrupt leaves in place, the next recording takes back.
"""

import contextlib
import os
import threading

from ..locks import fork_safe_lock


class WhileRecording:
    def __init__(self, put, take_back):
        self._put, self._take_back = put, take_back
        self._lock, self._holders = fork_safe_lock(), {}
        os.register_at_fork(after_in_child=self._alone)

    @contextlib.contextmanager
    def __call__(self):
        token = object()
        try:
            with self._lock:
                self._holders[token] = threading.get_ident()
                self._put()
            yield
        finally:
            self._holders.pop(token, None)
            with self._lock:
                if not self._holders:
                    self._take_back()

    def _alone(self):
        """Recordings of the parent's other threads do not end in a child."""
        others = [token for token, thread in self._holders.items() if thread != threading.get_ident()]
        for token in others:
            del self._holders[token]
        if others and not self._holders:
            self._take_back()


STAND_INS = {}   # id of an object of ours, which lives for good -> what tells for what it stands


def stood_for(value):
    """What a program has where ours stands while some thread records; None where it has nothing."""
    found = STAND_INS.get(id(value))
    return value if found is None else found.before


class Absent:
    before = None


class Replaced:
    """`name` of what `owner()` gives (None while there is none yet): `ours` in its place, whose code finds what stood there in `before`."""

    def __init__(self, owner, name, ours):
        self._owner, self._name, self._ours, self.before = owner, name, ours, None
        STAND_INS[id(ours)] = self

    def put(self):
        owner = self._owner()
        if owner is not None and getattr(owner, self._name) is not self._ours:
            self.before = getattr(owner, self._name)
            setattr(owner, self._name, self._ours)

    def take_back(self):
        owner = self._owner()
        if owner is not None and getattr(owner, self._name) is self._ours:
            setattr(owner, self._name, self.before)   # which stays known: another thread may be in `ours` just now


class Shadowed:
    """A method of `kind`, which has it from a base: `ours` in front of it."""

    def __init__(self, kind, name, ours):
        self._kind, self._name, self._ours = kind, name, ours
        STAND_INS[id(ours)] = Absent

    def put(self):
        if self._name not in vars(self._kind):   # else it is somebody's
            setattr(self._kind, self._name, self._ours)

    def take_back(self):
        if vars(self._kind).get(self._name) is self._ours:
            delattr(self._kind, self._name)


def all_of(replaced):
    """As one."""
    def put():
        for each in replaced:
            each.put()

    def take_back():
        for each in replaced:
            each.take_back()

    return WhileRecording(put, take_back)
