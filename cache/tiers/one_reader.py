"""One reader per host: processes that miss a key at once fetch it from a shared tier once, and all find it nearer.

A file lock per key, which the kernel frees with its owner. Who has it, or waited for it, looks nearer again, and only
then asks the shared tier: a reader that found nothing, another variant, or no server is no reason to wait twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ..typing import Held, Lease, Leases, StoreUnavailable

_SECONDS = 2.0  # that a reader is waited for: half of what a blob of 16 MiB may take
_FIRST_PAUSE, _LAST_PAUSE = 0.002, 0.05


class OneReader:
    """locks: of this host. clock, sleep: for tests."""

    def __init__(
        self,
        locks: Leases,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._locks = locks
        self._clock = clock
        self._sleep = sleep

    @contextmanager
    def turn(self, key: str) -> Iterator[None]:
        """Inside, another reader may have been faster, and none is at it, as far as that is known. Raises nothing."""
        lock: Lease | Held | None = None
        with suppress(StoreUnavailable):  # a full disk, say: everybody reads for himself
            lock = self._locks.acquire(key)
            if isinstance(lock, Held) and not lock.stopped:
                self._wait(key)
        try:
            yield
        finally:
            if lock is not None and not isinstance(lock, Held):
                lock.release(ok=True)

    def _wait(self, key: str) -> None:
        end, pause = self._clock() + _SECONDS, _FIRST_PAUSE
        while self._clock() < end and self._locks.peek(key) is not None:
            self._sleep(pause)
            pause = min(pause * 1.5, _LAST_PAUSE)
