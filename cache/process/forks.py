"""What must happen to locks and queues when a process forks. Not a lock of its own kind.

Two needs, one place. A lock that guards plain data (`fork_safe_lock`) is held across the fork, so that the
child never sees the data half changed nor a lock that a thread it does not have will never release (as
`logging` does). An object whose thread or queue stays behind (`reset_in_child`) is told so in the child.

Rule for users of `fork_safe_lock`: no I/O and no second such lock while holding one. Otherwise a fork could
wait long, or for ever.

An exception may come at any point of the hooks (Ctrl-C), and Python goes on forking. All locks here know who has
them, so that what was not taken is not released for another thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import weakref
from typing import Protocol


class Resettable(Protocol):
    """Something whose state the child of a fork must not inherit."""

    def after_fork_in_child(self) -> None: ...


logger = logging.getLogger(__package__)

_forking = threading.RLock()  # serialises forks from several threads, and guards the two sets
_locks: weakref.WeakSet[threading.RLock] = weakref.WeakSet()
_resets: weakref.WeakSet[Resettable] = weakref.WeakSet()
_here = threading.local()  # what this thread took for its fork: another one may be waiting to do the same


def fork_safe_lock() -> threading.RLock:
    """A lock whose data is whole in both processes after a fork."""
    lock = threading.RLock()
    with _forking:
        _locks.add(lock)
    return lock


def reset_in_child(thing: Resettable) -> None:
    """Call `thing.after_fork_in_child()` in every later child, for as long as `thing` lives."""
    with _forking:
        _resets.add(thing)


def _before() -> None:
    _forking.acquire()
    _here.locks = list(_locks)
    for lock in _here.locks:
        lock.acquire()


def _release() -> None:
    for lock in (*getattr(_here, "locks", ()), _forking):
        with contextlib.suppress(RuntimeError):  # this thread does not have it
            lock.release()
    _here.locks = []


def _in_child() -> None:
    _release()
    for thing in list(_resets):
        try:
            thing.after_fork_in_child()
        except Exception:  # the others still have to be
            logger.exception("what a fork left behind could not be reset; please report it")


os.register_at_fork(before=_before, after_in_parent=_release, after_in_child=_in_child)
