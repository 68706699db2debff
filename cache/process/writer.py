"""Work done behind the caller's back: a bounded queue and one daemon thread. Knows nothing of stores.

The thread lives only while there is work, so an idle process has none to leak, fork or wake. Whatever is
still queued at exit is waited for, within a bound.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable

from .exits import at_process_end, ending
from .forks import reset_in_child

logger = logging.getLogger(__package__)

EXIT_SECONDS = 10.0

Job = Callable[[], None]


class Writer:
    """Runs jobs in the order they were submitted.

    max_jobs and max_bytes bound what waits; a job beyond them is refused, since blocking would hold up a
    training step and queueing without end would fill the memory. dropped: how many were refused.
    """

    def __init__(self, max_jobs: int = 64, max_bytes: int = 2**30) -> None:
        self._max_jobs = max_jobs
        self._max_bytes = max_bytes
        self.after_fork_in_child()
        reset_in_child(self)
        _writers.add(self)

    def after_fork_in_child(self) -> None:
        """Start empty: what waits in the parent is the parent's to write, and its thread is not here."""
        self._lock = threading.RLock()  # not by the condition, whose `with` an interrupt may leave half done
        self._changed = threading.Condition(self._lock)
        self._queue: deque[tuple[Job, int]] = deque()
        self._waiting_bytes = 0
        self._running = False
        self._too_late = False  # Python starts no thread any more, while what others registered for the end still runs
        self.dropped = 0

    def submit(self, job: Job, size: int = 0) -> bool:
        """Queue `job`, which holds `size` bytes; False when it was refused. At the end of a process it runs at once."""
        with self._lock:
            beyond = len(self._queue) >= self._max_jobs or self._waiting_bytes + size > self._max_bytes
            full = beyond and bool(self._queue)
            if not full and self._start():
                self._queue.append((job, size))
                self._waiting_bytes += size
                self._changed.notify_all()
                return True
            if full or not self._is_late:
                self.dropped += 1
                return False
        _do(job)  # from Python 3.12 on no thread can be started any more
        return True

    def flush(self, timeout: float) -> bool:
        """Wait until nothing is queued or running. False when `timeout` seconds were not enough."""
        deadline = time.monotonic() + timeout
        with self._lock:
            while self._running:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    @property
    def pending(self) -> bool:
        """Whether something is queued or running."""
        return self._running

    @property
    def _is_late(self) -> bool:
        return self._too_late or ending()

    def _start(self) -> bool:
        if self._running:
            return True
        thread = threading.Thread(target=self._run, name="warmgraph-writer", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the interpreter is shutting down, or no thread can be had
            self._too_late = "interpreter shutdown" in str(error)
            if not self._is_late:
                logger.warning("nothing is written to the cache in the background: %s", error)
            return False
        _flush_at_the_end_of_this_process()
        self._running = True
        return True

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._running = False
                    self._changed.notify_all()
                    return
                job, size = self._queue.popleft()
                self._waiting_bytes -= size
            _do(job)
            del job  # what it holds may be large, and the next one may be long in coming


def _do(job: Job) -> None:
    try:
        job()
    except BaseException:  # whatever it is: who waits for this would wait for nothing
        logger.exception("a background write failed in a way that was not foreseen; please report it")


_writers: weakref.WeakSet[Writer] = weakref.WeakSet()
_registered_in = -1


def flush_all(timeout: float = EXIT_SECONDS) -> bool:
    """Wait for all that this process has yet to write; False when `timeout` seconds were too few."""
    deadline = time.monotonic() + timeout
    while all([writer.flush(max(0.0, deadline - time.monotonic())) for writer in list(_writers)]):  # noqa: C419 (each)
        if not any(writer.pending for writer in list(_writers)):  # one may have given work to another
            return True
    return False


def _flush_at_exit() -> None:
    if not flush_all():
        logger.warning("still writing to the cache after %.0f s; the last results may be lost", EXIT_SECONDS)


def _flush_at_the_end_of_this_process() -> None:
    global _registered_in
    if _registered_in != os.getpid():  # once per process: a child inherits the number, not the registration
        at_process_end(_flush_at_exit)
        _registered_in = os.getpid()
