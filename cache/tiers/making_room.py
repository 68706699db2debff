"""Room made in folders for what is written there, in a thread of its own: nobody's result waits for it."""

from __future__ import annotations

import logging
import time
from functools import partial

from ..process.writer import Writer
from ..stores.disk.schedule import LOOK_AGAIN
from ..stores.disk.store import DiskStore
from ..typing import Store, StoreUnavailable
from .access import Access

logger = logging.getLogger(__package__)


class MakingRoom:
    """Of one cache. max_size (bytes) and max_files bound each disk store; the folder's processes take turns looking."""

    def __init__(self, access: Access, *, max_size: int, max_files: int) -> None:
        self.writer = Writer()
        self._access = access
        self._max_size = max_size
        self._max_files = max_files
        self._looked_when_full = -LOOK_AGAIN

    def wrote(self, store: Store, size: int, *, failed: bool = False) -> None:
        """Note that `size` bytes came to a store. failed: they did not, perhaps since its disk is full."""
        if isinstance(store, DiskStore) and self._access.is_written(store):
            self.writer.submit(partial(self._look_if_due, store, size, failed=failed))

    def _look_if_due(self, store: DiskStore, size: int, *, failed: bool) -> None:
        try:
            due = self._may_be_full() if failed else store.is_due(size, self._max_size // 20)
        except StoreUnavailable as error:  # of its own small file; whether results can be written, who writes one sees
            logger.debug("whether to look at the size of cache tier %s is not known: %s", store.name, error)
            return
        try:
            if due:
                report = store.keep_within(self._max_size, self._max_files)
                if report is not None:
                    logger.info("cache tier %s was over its bounds: %s", store.name, report)
        except StoreUnavailable as error:
            self._access.failed(store, "write", error, raising=False)

    def _may_be_full(self) -> bool:
        """Once in a while: what makes a write fail may be anything."""
        now = time.monotonic()
        if now - self._looked_when_full < LOOK_AGAIN:
            return False
        self._looked_when_full = now
        return True
