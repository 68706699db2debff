"""The cache as the backend uses it: stores in a row, read in order, filled upwards, written behind.

The one place in this room that may fail open: a store that is unavailable is skipped, remembered as sick and
warned of once. With `strict` it is raised instead. Damaged bytes are never an error, here or there: a miss.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ..config.parsing import Mode
from ..format.codec import KEY, VARIANT, check_name
from ..format.packed import Packed, pack
from ..format.seal import DEFAULT_NAMESPACE, Signer, Verifier, accept_checksum, as_relayed
from ..process.writer import Writer
from ..profiles.store import ProfileStore
from ..stores.circuit_breaker import Health, Use
from ..stores.disk.eviction import Schedule
from ..stores.disk.store import DiskStore
from ..typing import Entry, Hit, Miss, Reason, Role, Scalar, Store, StoreUnavailable
from .flight import Flight, Flights
from .kernel_files import Spill, kernel_file
from .quarantine import Quarantine
from .reading import Accept, Complete, Search, read_complete
from .similar_entries import Relating

logger = logging.getLogger(__package__)

# (entry, seconds, error or None), once for each result that is handed to the slow tiers; in the background
# thread, or in the publishing one when too much was waiting.
OnPublished = Callable[[Entry, float, StoreUnavailable | None], None]


@dataclass(frozen=True, slots=True)
class Policy:
    """How one tier is treated. verifier: whose seals are believed there. remote: it is behind a network."""

    readonly: bool = False
    verifier: Verifier = accept_checksum
    remote: bool = False


class Cache:
    """Look up and publish. Thread-safe; a forked child may go on using it. Build one with `open_cache`.

    fast: the store that is written in the caller's thread (memory). slow: the others, read in order and
    written in the background. policies: by tier name. signer seals what is published, and the namespace with it;
    without one a checksum does. max_size (bytes) and max_files bound each disk store. learning: profiles.
    """

    def __init__(
        self,
        fast: Store,
        slow: Sequence[Store] = (),
        *,
        mode: Mode = Mode.READWRITE,
        strict: bool = False,
        max_size: int = 10**10,
        max_files: int = 200_000,
        on_published: OnPublished | None = None,
        health: Health | None = None,
        policies: Mapping[str, Policy] | None = None,
        signer: Signer | None = None,
        flights: Flights | None = None,
        learning: ProfileStore | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> None:
        self.mode = mode
        self._namespace = namespace
        self.learning = learning or ProfileStore(())
        self._tiers: tuple[Store, ...] = (fast, *slow)
        self._strict = strict
        self._max_size = max_size
        self._max_files = max_files
        self._on_published = on_published
        self._health = health or Health()
        self._policies = {store.name: (policies or {}).get(store.name, Policy()) for store in self._tiers}
        self._signer = signer
        self._flights = flights or Flights((), wait=0.0)
        self._spill = Spill()
        self._writer = Writer()
        remote = frozenset(name for name, policy in self._policies.items() if policy.remote)
        self._relating = Relating(
            self._tiers,
            remote=remote,
            may_write=self._may_write,
            may_read=lambda store: self._health.usable(store.name, "read"),
            failed=lambda store, use, error: self._failed(store, use, error, raising=False),
        )
        self._quarantine = Quarantine(
            self._tiers,
            remote=remote,
            may_write=self._may_write,
            failed=lambda store, error: self._failed(store, "write", error, raising=False),
            writer=self._writer,
        )
        self._schedule = Schedule(max_size // 20)
        self._background_error: StoreUnavailable | None = None

    def lookup(self, key: str, accept: Accept) -> Hit | Miss:
        """The first complete entry of `key` that `accept` takes, or why there is none.

        accept may be asked about one variant several times (once per tier); what it raises propagates.
        Raises ValueError for a malformed key, and StoreUnavailable only when strict.
        """
        check_name(KEY, key, "key")
        if self.mode is Mode.OFF:
            return Miss(Reason.CACHES_DISABLED, detail="mode=off")
        if self.mode is Mode.REFRESH:
            return Miss(Reason.REFRESH, detail="mode=refresh: lookups are skipped, results are published")
        search = Search()
        for level, store in enumerate(self._tiers):
            found = self._search_tier(store, key, accept, search)
            if found is not None:
                packed = found.packed
                if self._policies[store.name].remote:
                    packed = replace(packed, sealed=as_relayed(key, packed.sealed, namespace=self._namespace))
                for above in self._tiers[:level]:  # first, so that kernels have their files there
                    self._put(above, packed)
                if level > 1:  # in the background: nobody waits for that
                    self._writer.submit(partial(self._relating.note, self._tiers[1:level], packed.entry))
            hit = None if found is None else self._hit(store, found, search)
            if found is not None and hit is not None:
                for below in self._tiers[level:]:  # or what is always hit in memory would look unused on disk
                    self._touch(below, found.packed.entry)
                return hit
        return search.miss()

    def explained(self, miss: Miss, key: str, parts: Mapping[str, str], facts: Mapping[str, Scalar]) -> Miss:
        """`miss` with the entry that resembles the key most. facts: function, file and line, if known.

        A few small files are read, or one round trip made. Raises nothing for what any store holds or is.
        """
        return self._relating.explained(miss, key, parts, facts)

    def flight(self, key: str) -> AbstractContextManager[Flight]:
        """The right to compile `key`, waited for within bounds; look up again inside. See `flight.Flights`."""
        check_name(KEY, key, "key")
        return self._flights.flight(key)

    def publish(self, draft: Entry, blobs: Sequence[tuple[Role, str, bytes]], flight: Flight | None = None) -> Entry:
        """Keep a result: at once in memory, in the background elsewhere. Returns the entry with its blobs.

        flight: under which it was made; it is handed over, and ends where and when the result is written.
        draft.blobs is not looked at. Raises ValueError for what could never be stored (two blobs of one name,
        facts that are not finite, ...). When too much is waiting already, the slow tiers go without.

        Blobs are encoded here and not in the background: zstd and sha256 take about 1 ms per MB, which no
        compile notices, and all that follows has one form of each blob to deal with.
        """
        if self.mode is Mode.OFF:
            return draft
        # By this host's own clock: nothing that a server says goes into what is signed.
        packed = pack(draft, blobs, self._signer, time.time_ns() // 1000, namespace=self._namespace)
        if self._put(self._tiers[0], packed) is None:
            self._relating.note(self._tiers[:1], packed.entry)
        if not any(self._is_written(store) for store in self._tiers[1:]):
            return packed.entry
        if not self._hand_over(packed, flight):
            refused = StoreUnavailable("too many results wait to be written; this one is not")
            self._report(packed.entry, 0.0, refused)
        return packed.entry

    def quarantine(self, key: str, variant: str, why: str, sealed: bytes | None = None) -> None:
        """Take an entry that did not load out of every tier, so that it fails once. Raises ValueError, as above.

        sealed: the bytes that failed (`Hit.sealed`); what another process put in their place stays.
        """
        check_name(KEY, key, "key")
        check_name(VARIANT, variant, "variant")
        why = " ".join(why.split())  # one line, in the log as in the folder
        logger.warning("a cached result is quarantined (%.16s, %s): %s", key, variant, why)
        self._quarantine.everywhere(key, variant, why, sealed)

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until all is written; False when `timeout` seconds were too few. Strict: raises what failed."""
        done = self._writer.flush(timeout)
        error, self._background_error = self._background_error, None
        if error is not None and self._strict:
            raise error
        return done

    def health(self) -> dict[str, str]:
        """By tier, why it is not used; empty when all is well."""
        return self._health.report()

    @property
    def dropped(self) -> int:
        """How many results were not written because too many were waiting."""
        return self._writer.dropped

    # -- reading

    def _search_tier(self, store: Store, key: str, accept: Accept, search: Search) -> Complete | None:
        if not self._health.usable(store.name, "read"):
            search.note(Reason.UNREADABLE, str(self._health.error(store.name, "read")))
            return None
        try:
            for variant, sealed in store.entries(key):
                if self._quarantine.is_quarantined(sealed):
                    continue
                search.variants.add(variant)
                verifier = self._policies[store.name].verifier
                found = read_complete(store, key, variant, sealed, accept, verifier)
                if isinstance(found, Complete):
                    self._health.worked(store.name, "read")
                    return found
                search.note(found.reason, found.detail)
                if found.reason is not Reason.GUARDS:
                    self._quarantine.defect(store, key, variant, sealed, found)
        except StoreUnavailable as error:
            self._failed(store, "read", error)
            search.note(Reason.UNREADABLE, str(error))
        else:
            self._health.worked(store.name, "read")
        return None

    def _hit(self, store: Store, found: Complete, search: Search) -> Hit | None:
        """The hit, once every kernel has a file."""
        contents = dict(found.contents)
        files: dict[str, Path] = {}
        others = [other for other in self._tiers if other is not store and self._health.usable(other.name, "read")]
        try:
            for ref in found.packed.entry.blobs:
                if ref.role is Role.CPP_KERNEL:
                    files[ref.name] = kernel_file(ref, contents.pop(ref.name), store, others, self._spill)
        except StoreUnavailable as error:  # no file can be had; a lower tier may have one
            search.note(Reason.UNREADABLE, str(error))
            return None
        return Hit(store.name, found.packed.entry, contents, files, found.packed.size, found.packed.sealed)

    def _touch(self, store: Store, entry: Entry) -> None:
        if not self._health.usable(store.name, "read"):
            return
        try:
            store.touch(entry.key, entry.variant, entry.blobs)
        except StoreUnavailable as error:
            # A read-only folder serves hits all the same; who only reads need not hear of it.
            logger.debug("cache tier %s: use of %.16s is not noted: %s", store.name, entry.key, error)

    # -- writing

    def _is_written(self, store: Store) -> bool:
        read_only = self.mode is Mode.READONLY or self._policies[store.name].readonly
        return store is self._tiers[0] or not read_only

    def _may_write(self, store: Store) -> bool:
        return self._is_written(store) and self._health.usable(store.name, "write")

    def _put(self, store: Store, packed: Packed, *, raising: bool = True) -> StoreUnavailable | None:
        """Blobs first, the entry last: whoever sees the entry can have its blobs. Returns why it failed."""
        if not self._may_write(store):
            return self._health.error(store.name, "write")
        try:
            for ref, data in packed.blobs:
                store.put_blob(ref, data)
            store.put_entry(packed.entry.key, packed.entry.variant, packed.sealed)
        except StoreUnavailable as error:
            self._failed(store, "write", error, raising=raising)
            return error
        self._health.worked(store.name, "write")
        return None

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
            for store in filter(self._is_written, self._tiers[1:]):
                error = self._put(store, packed, raising=False)
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
            self._background_error = error
        logger.debug("published %.16s in %.3f s: %s", entry.key, seconds, error or "complete")
        if self._on_published is not None:
            self._on_published(entry, seconds, error)

    def _evict(self, written: int) -> None:
        if not self._schedule.due(written):
            return
        for store in self._tiers:
            if not isinstance(store, DiskStore) or not self._may_write(store):
                continue
            try:
                report = store.keep_within(self._max_size, self._max_files)
                if report is not None:
                    logger.info("cache tier %s was over its bounds: %s", store.name, report)
            except StoreUnavailable as error:
                self._failed(store, "write", error, raising=False)

    def _failed(self, store: Store, use: Use, error: StoreUnavailable, *, raising: bool = True) -> None:
        self._health.failed(store.name, use, error)
        if raising and self._strict:
            raise error
