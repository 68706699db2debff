"""Results on their way to the slow tiers, in the background, and room made for them. Not what one is (`packed`)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ..format.packed import Packed
from ..process.writer import Writer
from ..stores.disk.eviction import Schedule
from ..stores.disk.store import DiskStore
from ..typing import Entry, Store, StoreUnavailable
from .access import Access
from .flight import Flight
from .similar_entries import Relating

logger = logging.getLogger(__package__)

# (entry, seconds, error or None), once for each result that is handed to the slow tiers; in the background
# thread, or in the publishing one when too much was waiting.
OnPublished = Callable[[Entry, float, StoreUnavailable | None], None]


class Publishing:
    """Of one cache. max_size (bytes) and max_files bound each disk store. error: the last one, until it is taken."""

    def __init__(
        self,
        access: Access,
        writer: Writer,
        relating: Relating,
        *,
        max_size: int,
        max_files: int,
        on_published: OnPublished | None,
    ) -> None:
        self.error: StoreUnavailable | None = None
        self._access = access
        self._writer = writer
        self._relating = relating
        self._max_size = max_size
        self._max_files = max_files
        self._on_published = on_published
        self._schedule = Schedule(max_size // 20)

    def publish(self, packed: Packed, flight: Flight | None) -> None:
        """Write a result, which ends the flight. When too much is waiting, the slow tiers go without."""
        if not any(self._access.is_written(store) for store in self._access.tiers[1:]):
            return
        if not self._hand_over(packed, flight):
            refused = StoreUnavailable("too many results wait to be written; this one is not")
            self._report(packed.entry, 0.0, refused)

    def _hand_over(self, packed: Packed, flight: Flight | None) -> bool:
        """To the background thread, with the flight; False when too much waits there."""
        if flight is None:
            return self._writer.submit(lambda: self._write(packed, None), packed.size)
        flight.handed_over()  # threads that wait find it in memory from here on
        taken = False
        try:
            taken = self._writer.submit(lambda: self._write(packed, flight), packed.size)
        finally:
            if not taken:
                flight.settle(ok=False)
        return taken

    def _write(self, packed: Packed, flight: Flight | None) -> None:
        """In the background thread: the slow tiers, then eviction. Whoever waits for a tier is let go in between."""
        start = time.perf_counter()
        first: StoreUnavailable | None = None
        landed = False
        written: list[Store] = []
        try:
            for store in filter(self._access.is_written, self._access.tiers[1:]):
                error = self._access.put(store, packed, raising=False)
                if error is not None:
                    first = first or error
                else:
                    written.append(store)
                    if flight is not None:
                        flight.release_level(store.name, ok=True)
                landed = error is None
        finally:
            if flight is not None:
                # Who waits at a level looks there and farther: what lies nearer, or in the last one, decides.
                flight.settle(ok=landed)
        self._relating.note(written, packed.entry)
        self._report(packed.entry, time.perf_counter() - start, first)
        self._evict(packed.size)

    def _report(self, entry: Entry, seconds: float, error: StoreUnavailable | None) -> None:
        if error is not None:
            self.error = error
        logger.debug("published %.16s in %.3f s: %s", entry.key, seconds, error or "complete")
        if self._on_published is not None:
            self._on_published(entry, seconds, error)

    def _evict(self, written: int) -> None:
        if not self._schedule.due(written):
            return
        for store in self._access.tiers:
            if not isinstance(store, DiskStore) or not self._access.may_write(store):
                continue
            try:
                report = store.keep_within(self._max_size, self._max_files)
                if report is not None:
                    logger.info("cache tier %s was over its bounds: %s", store.name, report)
            except StoreUnavailable as error:
                self._access.failed(store, "write", error, raising=False)
