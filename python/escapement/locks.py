"""Locks that a forked child can use: one that another thread held at the fork would never be released there, since the child has
no such thread. What the lock protects may then be half done in the child, which is why such sections only add to tables."""

import os
import threading
import weakref

LOCKS = weakref.WeakSet()


def fork_safe_lock():
    lock = threading.RLock()
    LOCKS.add(lock)
    return lock


def start_anew():
    for lock in [*LOCKS]:
        lock._at_fork_reinit()


os.register_at_fork(after_in_child=start_anew)
