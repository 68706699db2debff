"""Profiles through the tiers: read from all of them at once, written behind. Not what a profile is (`profiles`).

A profile's records lie beside the entries, under a key of their own and named by their lines; a reader joins them. A
writer joins what is there with what it knows, puts that, and then removes the records it contains. So many writers need
no lock: a line is in some record from the moment it is first put. The races, and what each costs:

- Two write the same lines: one name, one record.
- Two write different lines: two records, until the next writer joins them.
- A record is removed while another writer puts it again: the lines are in the record for which it was removed.
- A record is removed between a folder's listing and its reading, and the one that contains it was put after the
  listing: that reader does not know its lines, and compiles as if nobody had seen them.
- A record is evicted or damaged: its lines are gone, as if nobody had seen them.

What is joined into a record that is signed here was signed by one of our keys: a stranger's lines are read where that
is allowed (`trust=network`), and never passed on under our name.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from ..config.parsing import Mode
from ..format.codec import KEY, canonical_entry, check_name, decode_entry
from ..format.seal import Signer, Verifier, as_relayed, is_believed, seal, unseal
from ..process.writer import Writer
from ..stores.circuit_breaker import Health, Use
from ..stores.disk.store import DiskStore
from ..typing import CorruptEntry, Store, StoreUnavailable
from .profiles import Profile, profile_entry, profile_in, today

logger = logging.getLogger(__package__)

_MANY = 8  # records that are worth joining though nothing is new
_MOST = 64  # records that are read
CONNECTING_SECONDS = 0.04  # in the life of a process, for a store that is being connected to
_TICK = 0.002


def _never() -> bool:
    return False


class Place(Struct, frozen=True):
    """A store that profiles lie in.

    believed: whose seals count on reading. vouched: whose may be passed on under our own. remote: it is behind a
    network. connecting: that it is not connected to yet, but soon may be.
    """

    store: Store
    believed: Verifier
    vouched: Verifier
    readonly: bool = False
    remote: bool = False
    connecting: Callable[[], bool] = _never


class _Record(Struct, frozen=True):
    variant: str
    sealed: bytes
    profile: Profile


class ProfileStore:
    """Reads and writes profiles. Thread-safe; a forked child may go on using it.

    Fails open as the tiers do: a store that is unavailable is skipped (strict: raised, in the foreground), and what
    cannot be read is no profile.
    """

    def __init__(
        self,
        places: Sequence[Place],
        *,
        mode: Mode = Mode.READWRITE,
        strict: bool = False,
        health: Health | None = None,
        signer: Signer | None = None,
    ) -> None:
        self._places = tuple(places)
        self._mode = mode
        self._strict = strict
        self._health = health or Health()
        self._signer = signer
        self._writer = Writer()
        self._patience = CONNECTING_SECONDS

    def profile(self, key: str) -> Profile:
        """What is known under `key`: one look at the folder, one round trip to a remote store.

        Raises ValueError for a malformed key, and StoreUnavailable only when strict.
        """
        check_name(KEY, key, "key")
        if self._mode in (Mode.OFF, Mode.REFRESH):
            return Profile()
        known, nearer = Profile(), list[_Record]()
        for place in self._places:
            records = self._read(place, key)
            found = _joined(records)
            if place.remote and self._mode is Mode.READWRITE:
                if not known.covers(found):
                    self._writer.submit(partial(self._keep_near, key, records))
                if not found.covers(known):
                    self._writer.submit(partial(self._keep, place, key, nearer))
            known, nearer = known.joined(found), [*nearer, *records]
        return known

    def learn(self, key: str, profile: Profile, about: str) -> bool:
        """Add to what is known under `key`, in the background. False when too much waits there to be written.

        about: what the profile is of, for people.
        """
        check_name(KEY, key, "key")
        if not profile.lines or not any(self._is_written(place) for place in self._places):
            return True
        return self._writer.submit(partial(self._write, key, profile, about))

    # -- reading

    def _read(self, place: Place, key: str) -> list[_Record]:
        name = place.store.name
        if not self._health.usable(name, "read") or not self._is_there(place):
            return []
        try:
            records = list(islice(_records(place.store, key, place.believed), _MOST))
            for record in records:
                place.store.touch(key, record.variant)
        except StoreUnavailable as error:
            self._failed(name, "read", error)
            return []
        self._health.worked(name, "read")
        return records

    def _is_there(self, place: Place) -> bool:
        """Whether to ask. A store that is still being connected to is not blamed for it, nor waited for as a lookup
        would: lookups come later, and find it connected.
        """
        while place.connecting():
            if self._patience <= 0:
                logger.debug("cache tier %s: no profile, as it is still being connected to", place.store.name)
                return False
            time.sleep(_TICK)
            self._patience -= _TICK
        return True

    # -- writing, in the background

    def _is_written(self, place: Place) -> bool:
        return not place.readonly and self._mode in (Mode.READWRITE, Mode.REFRESH)

    def _write(self, key: str, profile: Profile, about: str) -> None:
        for place in filter(self._is_written, self._places):
            name = place.store.name
            if not self._health.usable(name, "write"):
                continue
            try:
                self._add(place, key, profile, about)
            except StoreUnavailable as error:
                self._health.failed(name, "write", error)
            else:
                self._health.worked(name, "write")

    def _add(self, place: Place, key: str, profile: Profile, about: str) -> None:
        records = list(_records(place.store, key, place.vouched))
        known = _joined(records)
        whole = known.joined(profile)
        if known.covers(whole) and len(records) <= _MANY:
            return
        entry = profile_entry(key, whole, about)
        generation, namespace = time.time_ns() // 1000, place.vouched.namespace
        sealed = seal(key, canonical_entry(entry), self._signer, generation, namespace=namespace)
        place.store.put_entry(key, entry.variant, sealed)
        logger.debug("profile %.16s (%s): %d lines to %s", key, about, len(whole.lines), place.store.name)
        for record in records:
            if record.variant != entry.variant and whole.covers(whole.joined(record.profile)):
                _remove(place.store, key, record)

    def _keep_near(self, key: str, records: Sequence[_Record]) -> None:
        """What a remote store knows is kept in the folder as well, for when it does not answer."""
        namespace = self._places[0].believed.namespace
        relayed = [replace(one, sealed=as_relayed(key, one.sealed, namespace=namespace)) for one in records]
        for place in self._places:
            if not place.remote:
                self._keep(place, key, relayed)

    def _keep(self, place: Place, key: str, records: Sequence[_Record]) -> None:
        """Records of another store, as they are, where they say more than what lies here: a server may have lost them.

        What readers would not believe on a server is not put there.
        """
        if place.remote:
            records = [one for one in records if is_believed(key, one.sealed, place.believed)]
        if not records or not self._is_written(place) or not self._health.usable(place.store.name, "write"):
            return
        try:
            there = _joined(_records(place.store, key, place.believed))
            for one in records:
                if not there.covers(one.profile):
                    place.store.put_entry(key, one.variant, one.sealed)
        except StoreUnavailable as error:
            self._health.failed(place.store.name, "write", error)

    def _failed(self, name: str, use: Use, error: StoreUnavailable) -> None:
        self._health.failed(name, use, error)
        if self._strict:
            raise error


def _records(store: Store, key: str, verifier: Verifier) -> Iterator[_Record]:
    """The records that are whole and sealed by someone who counts. Others are passed by: they age, or are replaced."""
    for variant, sealed in store.entries(key):
        try:
            profile = profile_in(decode_entry(key, unseal(key, sealed, verifier)))
        except CorruptEntry as error:
            logger.debug("a profile is not used (%.16s, tier %s): %s", key, store.name, error)
            continue
        yield _Record(variant, sealed, profile.still_true(today()))


def _remove(store: Store, key: str, record: _Record) -> None:
    """Its lines are elsewhere. On disk it is no case for the quarantine, where people look for what went wrong."""
    if isinstance(store, DiskStore):
        store.remove_entry(key, record.variant)
    else:
        store.quarantine(key, record.variant, "joined with others", record.sealed)


def _joined(records: Sequence[_Record] | Iterator[_Record]) -> Profile:
    known = Profile()
    for record in records:
        known = known.joined(record.profile)
    return known
