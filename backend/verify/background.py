"""Compiling beside the training step: daemon threads that end with the process. Knows nothing of what they do."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable

from warmgraph.cache import at_process_end, ending

EXIT_SECONDS = 10.0  # how long the end of a process waits for its threads to come to a stop point

_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
_registered_in = -1


def run_in_background(job: Callable[[], None]) -> None:
    """Run `job` in a thread of its own. Raises RuntimeError when no thread can be had."""
    global _registered_in
    thread = threading.Thread(target=job, name="warmgraph-verify", daemon=True)
    thread.start()
    _threads.add(thread)
    if _registered_in != os.getpid():
        at_process_end(_wait_for_all)
        _registered_in = os.getpid()


def stop_point() -> None:
    """To be called by a job again and again, wherever it may be left for good: ends its thread once the process ends.

    Only here. An exception that is thrown into a thread from outside may come between the taking of a lock and the
    `try` that gives it back; a process whose import lock was left so never ended.
    """
    if ending():
        raise SystemExit


def _wait_for_all() -> None:
    """A daemon thread that is inside torch's C++ when the interpreter ends can abort the process; so none is left.

    But for one that comes to no stop point for long: it waits for a C++ compiler then, most likely.
    """
    deadline = time.monotonic() + EXIT_SECONDS
    for thread in list(_threads):
        thread.join(max(0.0, deadline - time.monotonic()))
