"""Something of Python's or torch's that is another while recordings run, in whatever thread: put there by the first, taken back by the last."""

import collections
import contextlib
import os
import threading

from ..locks import fork_safe_lock


class WhileRecording:
    def __init__(self, put, take_back):
        self._put, self._take_back = put, take_back
        self._lock, self._threads = fork_safe_lock(), collections.Counter()
        os.register_at_fork(after_in_child=self._alone)

    @contextlib.contextmanager
    def __call__(self):
        thread = threading.get_ident()
        with self._lock:
            if not self._threads:
                self._put()
            self._threads[thread] += 1
        try:
            yield
        finally:
            with self._lock:
                self._threads -= collections.Counter((thread,))
                if not self._threads:
                    self._take_back()

    def _alone(self):
        """Recordings of the parent's other threads do not end in a child."""
        others = [thread for thread in self._threads if thread != threading.get_ident()]
        for thread in others:
            del self._threads[thread]
        if others and not self._threads:
            self._take_back()
