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


class Replaced:
    """`name` of what `owner()` gives (None while there is none yet): `ours` in its place, whose code finds what stood there in `before`."""

    def __init__(self, owner, name, ours):
        self._owner, self._name, self._ours, self.before = owner, name, ours, None

    def put(self):
        owner = self._owner()
        if owner is not None and getattr(owner, self._name) is not self._ours:
            self.before = getattr(owner, self._name)
            setattr(owner, self._name, self._ours)

    def take_back(self):
        owner = self._owner()
        if owner is not None and getattr(owner, self._name) is self._ours:
            setattr(owner, self._name, self.before)   # which stays known: another thread may be in `ours` just now
