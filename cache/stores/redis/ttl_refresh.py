"""Lives prolonged behind the caller's back: what was used is to be evicted last. Losing one costs nothing much."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence

from ...process.exits import ending
from ...process.forks import fork_safe_lock, reset_in_child
from ...process.writer import Writer
from ...typing import StoreUnavailable
from .errors import Refusal

logger = logging.getLogger(__package__)

_EVERY = 3600.0  # seconds, at most: a hit must not cost a write each time
_WAITING = 1024  # what is beyond is not prolonged this time
_REMEMBERED = 10_000
_REFUSED_SECONDS = 600.0


def told_every(ttl: float) -> float:
    """Seconds within which an entry's use is told once, so that what is in use never reaches its end."""
    return min(_EVERY, ttl / 2)


class TtlRefresher:
    """prolong: sends names, in the background, at most once in `every` seconds each; raises StoreUnavailable."""

    def __init__(self, prolong: Callable[[Sequence[str]], None], *, every: float) -> None:
        self._prolong = prolong
        self._every = every
        self._lock = fork_safe_lock()
        self._writer = Writer(max_jobs=2)
        self._last: dict[tuple[str, str], float] = {}
        self._waiting: deque[Sequence[str]] = deque(maxlen=_WAITING)
        self._refused_until = 0.0
        reset_in_child(self)

    def after_fork_in_child(self) -> None:
        self._waiting.clear()  # the parent's to send

    def note(self, key: str, variant: str, names: Sequence[str]) -> None:
        """Prolong `names` soon, unless this entry's were not long ago. Waits for nothing."""
        now = time.monotonic()
        with self._lock:
            last = self._last.get((key, variant))
            if now < self._refused_until or (last is not None and now - last < self._every):
                return
            if len(self._last) >= _REMEMBERED:
                self._last.clear()
            self._last[key, variant] = now
            self._waiting.append(names)
        self._writer.submit(self._send)  # refused when one is queued already, and that one sends all

    def flush(self, timeout: float) -> bool:
        """Wait until all is sent; False when `timeout` seconds were too few."""
        return self._writer.flush(timeout)

    def _send(self) -> None:
        with self._lock:
            names = [name for group in self._waiting for name in group]
            self._waiting.clear()
        if not names or ending():  # nobody is to wait for this
            return
        try:
            self._prolong(names)
        except StoreUnavailable as error:
            if isinstance(error, Refusal):  # a user who may not; or a replica, before a failover is over
                self._refused_until = time.monotonic() + _REFUSED_SECONDS
            logger.debug("use of %d values is not noted: %s", len(names), error)
