"""The cache and journal, opened for the settings of the moment and shared by all backends. Compiles nothing."""

from __future__ import annotations

import threading

from msgspec import Struct
from warmgraph.cache import Cache, Journal, Settings, open_journaled, reset_in_child


class Opened(Struct, frozen=True):
    """journal: None where nothing may be written."""

    cache: Cache
    journal: Journal | None
    settings: Settings


class Opener:
    """Opens once per settings. Two backends of one process look up, wait and write through one cache."""

    def __init__(self) -> None:
        self._opened: Opened | None = None
        self.after_fork_in_child()
        reset_in_child(self)

    def after_fork_in_child(self) -> None:
        """A fork while another thread opens the cache must not leave the child a lock that nobody releases."""
        self._lock = threading.Lock()

    def __call__(self, current: Settings) -> Opened:
        """Raises what opening a store raises: a bad URL, a refused one."""
        with self._lock:
            if self._opened is None or self._opened.settings != current:
                self._opened = Opened(*open_journaled(current), current)
            return self._opened

    def forget(self) -> None:
        """Open anew at the next call, as a fresh process would."""
        with self._lock:
            self._opened = None


opened = Opener()
