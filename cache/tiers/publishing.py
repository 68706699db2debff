"""Results on their way to the slow tiers, in the background, and room made for them. Not what one is (`packed`)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ..format.packed import Packed
from ..process.writer import Writer
from ..typing import Entry, Store, StoreUnavailable
from .access import Access
from .flight import Flight
from .making_room import MakingRoom
from .similar_entries import Relating

logger = logging.getLogger(__package__)

# (entry, seconds, error or None), once for each result that is handed to the slow tiers; in a background
# thread, or in the publishing one when too much was waiting.
OnPublished = Callable[[Entry, float, StoreUnavailable | None], None]
_REFUSED = "too many results wait to be written, or the process ends; this one is not"


class Publishing:
    """Of one cache. writers: one for each slow tier, by its name: who waits for the folder does not wait for a network.
    error: the last one, until it is taken.
    """

    def __init__(
        self,
        access: Access,
        writers: Mapping[str, Writer],
        relating: Relating,
        room: MakingRoom,
        *,
        on_published: OnPublished | None,
    ) -> None:
        self.error: StoreUnavailable | None = None
        self._access = access
        self._writers = writers
        self._relating = relating
        self._room = room
        self._on_published = on_published

    def publish(self, packed: Packed, flight: Flight | None) -> None:
        """Write a result, which ends the flight. A tier for which too much is waiting goes without."""
        stores = [store for store in self._access.tiers[1:] if self._access.is_written(store)]
        if not stores:
            return
        sending = _Sending(packed, flight, stores)
        if flight is not None:
            flight.handed_over()  # threads that wait find it in memory from here on
        taken = set()
        try:
            for store in stores:
                if self._writers[store.name].submit(partial(self._write, store, sending), packed.size):
                    taken.add(store.name)
        finally:
            for store in stores:
                if store.name not in taken:  # refused, or interrupted: a writer may have begun with what it took
                    self._over(store, sending, StoreUnavailable(_REFUSED))

    def _write(self, store: Store, sending: _Sending) -> None:
        """In the background thread of that tier."""
        start = time.perf_counter()
        error: StoreUnavailable | None = StoreUnavailable("it failed in a way that was not foreseen")
        try:
            error = self._access.put(store, sending.packed, raising=False)
        finally:
            self._over(store, sending, error, time.perf_counter() - start)
        if error is None:
            self._relating.note([store], sending.packed.entry)
        self._room.wrote(store, sending.packed.size, failed=error is not None)

    def _over(self, store: Store, sending: _Sending, error: StoreUnavailable | None, seconds: float = 0.0) -> None:
        """Whoever waits for this tier is let go; after the last of them, whoever is left."""
        flight = sending.flight
        if flight is not None and error is None:
            flight.release_level(store.name, ok=True)
        if not sending.is_over(store, error, seconds):
            return
        try:
            if flight is not None:
                # Who waits at a level looks there and farther: what lies nearer, or in the last one, decides.
                flight.settle(ok=sending.landed)
        finally:
            self._report(sending.packed.entry, sending.seconds, sending.error)

    def _report(self, entry: Entry, seconds: float, error: StoreUnavailable | None) -> None:
        if error is not None:
            self.error = error
        logger.debug("published %.16s in %.3f s: %s", entry.key, seconds, error or "complete")
        if self._on_published is not None:
            self._on_published(entry, seconds, error)


class _Sending:
    """One result on its way to its tiers. landed: it is in the last of them. seconds: of the slowest."""

    def __init__(self, packed: Packed, flight: Flight | None, stores: Sequence[Store]) -> None:
        self.packed = packed
        self.flight = flight
        self.landed = False
        self.error: StoreUnavailable | None = None
        self.seconds = 0.0
        self._last = stores[-1]
        self._left = {store.name for store in stores}
        self._lock = threading.Lock()

    def is_over(self, store: Store, error: StoreUnavailable | None, seconds: float) -> bool:
        """Note how it went with one tier; whether that was the last to come. Of a tier that is over already: False."""
        with self._lock:
            if store.name not in self._left:
                return False
            self._left.discard(store.name)
            self.error = self.error or error
            self.seconds = max(self.seconds, seconds)
            if store is self._last:
                self.landed = error is None
            return not self._left
