"""The cache as the backend uses it: stores in a row, read in order, filled upwards, written behind.

The one place in this room that may fail open: a store that is unavailable is skipped, remembered as sick and
warned of once. With `strict` it is raised instead. Damaged bytes are never an error, here or there: a miss.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial

from msgspec.structs import replace

from ..config.parsing import Mode
from ..format.codec import KEY, VARIANT, check_name
from ..format.packed import pack
from ..format.seal import DEFAULT_NAMESPACE, Signer, as_relayed, generation_of
from ..process.writer import Writer
from ..profiles.store import ProfileStore
from ..stores.circuit_breaker import Health
from ..stores.disk.store import DiskStore
from ..typing import Entry, Hit, Miss, Reason, Role, Scalar, Store, StoreUnavailable
from .access import Access, Policy
from .flight import Flight, Flights
from .healing import Healing, Waited
from .kernel_files import Spill, kernel_files
from .making_room import MakingRoom
from .one_reader import OneReader
from .publishing import OnPublished, Publishing
from .quarantine import Quarantine
from .reading import Accept, Complete, Search, read_complete
from .similar_entries import Relating

logger = logging.getLogger(__package__)


class Cache:
    """Look up and publish. Thread-safe; a forked child may go on using it. Build one with `open_cache`.

    fast: the store that is written in the caller's thread (memory). slow: the others, read in order and
    written in the background. policies: by tier name. signer seals what is published, and the namespace with it;
    without one a checksum does. max_size (bytes) and max_files bound each disk store. learning: profiles.
    healing: of the tier behind a network; one_reader: who asks it, among the processes of this host.
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
        healing: Healing | None = None,
        one_reader: OneReader | None = None,
    ) -> None:
        self.mode = mode
        self._namespace = namespace
        self.learning = learning or ProfileStore(())
        self._tiers: tuple[Store, ...] = (fast, *slow)
        self._strict = strict
        self._health = health or Health()
        self._access = access = Access(self._tiers, policies or {}, self._health, mode=mode, strict=strict)
        self._signer = signer
        self._flights = flights or Flights((), wait=0.0)
        self._healing = healing
        self._one_reader = one_reader
        self._spill = Spill()
        self._writers = {store.name: Writer() for store in slow}
        self._relating = Relating(access)
        self._quarantine = Quarantine(access, self._writers)
        self._room = MakingRoom(access, max_size=max_size, max_files=max_files)
        self._publishing = Publishing(access, self._writers, self._relating, self._room, on_published=on_published)

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
        with ExitStack() as stack:
            for level, store in enumerate(self._tiers):
                if self._is_for_one_reader(store, key, stack):
                    for nearer in range(level):
                        if (hit := self._look(nearer, key, accept, search, fetched=True)) is not None:
                            return hit
                if (hit := self._look(level, key, accept, search)) is not None:
                    return hit
        return search.miss()

    def agree(self, hit: Hit, seconds: Callable[[], float]) -> Waited | None:
        """In a job: wait until no other rank compiles what was hit here. See `healing`.

        Not inside a flight: somebody may wait for that.
        """
        if self._healing is None or self._flights.inside():
            return None
        return self._healing.agree(hit.entry, seconds)

    def explained(self, miss: Miss, key: str, parts: Mapping[str, str], facts: Mapping[str, Scalar]) -> Miss:
        """`miss` with the entry that resembles the key most. facts: function, file and line, if known.

        A few small files are read, or one round trip made. Raises nothing for what any store holds or is.
        """
        return self._relating.explained(miss, key, parts, facts)

    def flight(self, key: str, *, insist: bool = False) -> AbstractContextManager[Flight]:
        """The right to compile `key`, waited for within bounds; look up again inside. See `flight.Flights`.

        A server that paused a moment ago is waited for first: a compile is dearer (`Health.bridge`).
        """
        check_name(KEY, key, "key")
        return self._in_turn(key, insist)

    @contextmanager
    def _in_turn(self, key: str, insist: bool) -> Iterator[Flight]:
        for store in self._tiers:
            self._health.bridge(store.name)
        with self._flights.flight(key, insist=insist) as flight:
            yield flight

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
        if self._access.put(self._tiers[0], packed) is None:
            self._relating.note(self._tiers[:1], packed.entry)
        if self._healing is not None:
            self._healing.know(packed.entry)
        self._publishing.publish(packed, flight)
        return packed.entry

    def quarantine(self, key: str, variant: str, why: str, sealed: bytes | None = None) -> None:
        """Take an entry that did not load out of every tier, so that it fails once. Raises ValueError, as above.

        sealed: the bytes that failed (`Hit.sealed`); what another process put in their place stays.
        """
        check_name(KEY, key, "key")
        check_name(VARIANT, variant, "variant")
        why = " ".join(why.split())  # one line, in the log as in the folder
        if self._healing is not None:  # first: then nobody brings back what is removed
            generation = time.time_ns() // 1000 if sealed is None else generation_of(sealed)
            self._writers[self._tiers[-1].name].submit(partial(self._healing.set_aside, key, variant, generation))
        logger.warning("a cached result is quarantined (%.16s, %s): %s", key, variant, why)
        self._quarantine.everywhere(key, variant, why, sealed)

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until all is written; False when `timeout` seconds were too few. Strict: raises what failed."""
        deadline = time.monotonic() + timeout
        writers = (*self._writers.values(), self._room.writer)  # the last: what is written gives it work
        done = all(writer.flush(max(0.0, deadline - time.monotonic())) for writer in writers)
        error, self._publishing.error = self._publishing.error, None
        if error is not None and self._strict:
            raise error
        return done

    def health(self) -> dict[str, str]:
        """By tier, why it is not used; empty when all is well."""
        return self._health.report()

    @property
    def keeps(self) -> bool:
        """Whether anything that is published outlasts this process."""
        return any(self._access.is_written(store) for store in self._tiers[1:])

    @property
    def dropped(self) -> int:
        """How many results a tier did not get because too many were waiting."""
        return sum(writer.dropped for writer in self._writers.values())

    # -- reading

    def _is_for_one_reader(self, store: Store, key: str, stack: ExitStack) -> bool:
        """Before a tier behind a network: this process's turn, unless another was faster."""
        if self._one_reader is None or not self._access.policy(store).remote or not self._access.may_read(store):
            return False
        stack.enter_context(self._one_reader.turn(key))
        return True

    def _look(self, level: int, key: str, accept: Accept, search: Search, *, fetched: bool = False) -> Hit | None:
        """fetched: what lies here was brought from a tier behind a moment ago."""
        store = self._tiers[level]
        remote = self._access.policy(store).remote
        found = self._search_tier(store, key, accept, search)
        if found is None:
            return None
        packed = found.packed
        if remote:
            packed = replace(packed, sealed=as_relayed(key, packed.sealed, namespace=self._namespace))
        for above in self._tiers[:level]:  # first, so that kernels have their files there
            self._room.wrote(above, packed.size, failed=self._access.put(above, packed) is not None)
        if level > 1:  # in the background: nobody waits for that
            self._writers[self._tiers[1].name].submit(partial(self._relating.note, self._tiers[1:level], packed.entry))
        hit = self._hit(store, found, search)
        if hit is None:
            return None
        self._touch(level, packed.entry, packed.sealed)
        if self._healing is not None:
            if remote or fetched or self._flights.inside(key):  # another one compiled it just now
                self._healing.know(packed.entry)
            else:
                self._healing.hit(packed.entry, packed.sealed, store)
        return hit

    def _search_tier(self, store: Store, key: str, accept: Accept, search: Search) -> Complete | None:
        if not self._access.may_read(store):
            search.note(Reason.UNREADABLE, str(self._health.error(store.name, "read")))
            return None
        try:
            for variant, sealed in store.entries(key):
                if self._quarantine.is_quarantined(sealed):
                    continue
                search.variants.add(variant)
                verifier = self._access.policy(store).verifier
                found = read_complete(store, key, variant, sealed, accept, verifier)
                if isinstance(found, Complete):
                    self._health.worked(store.name, "read")
                    return found
                search.note(found.reason, found.detail)
                if found.reason is not Reason.GUARDS:
                    self._quarantine.defect(store, key, variant, sealed, found)
        except StoreUnavailable as error:
            self._access.failed(store, "read", error)
            search.note(Reason.UNREADABLE, str(error))
        else:
            self._health.worked(store.name, "read")
        return None

    def _hit(self, store: Store, found: Complete, search: Search) -> Hit | None:
        """The hit, once every kernel has a file."""
        contents = dict(found.contents)
        others = [other for other in self._tiers if other is not store and self._access.may_read(other)]
        try:
            files = kernel_files(found.packed.entry, contents, store, others, self._spill)
        except StoreUnavailable as error:  # no file can be had; a lower tier may have one
            search.note(Reason.UNREADABLE, str(error))
            return None
        return Hit(store.name, found.packed.entry, contents, files, found.packed.size, found.packed.sealed)

    def _touch(self, level: int, entry: Entry, sealed: bytes) -> None:
        """From a tier on, or what is always hit in memory would look unused on disk.

        Over a network only what no process of this host used lately, and what was not made lately: that lives long.
        """
        unused = abs(time.time() - generation_of(sealed) / 1e6)
        for store in filter(self._access.may_read, self._tiers[level:]):
            if unused < self._access.policy(store).told_every:
                continue
            try:
                if isinstance(store, DiskStore):
                    unused = min(unused, store.unused_for(entry.key, entry.variant))
                store.touch(entry.key, entry.variant, entry.blobs)
            except StoreUnavailable as error:
                # A read-only folder serves hits all the same; who only reads need not hear of it.
                logger.debug("cache tier %s: use of %.16s is not noted: %s", store.name, entry.key, error)
