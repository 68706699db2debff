"""The Redis store: entries and blobs on a server that many hosts share. Not leases (`lease`), not surveys (`survey`).

Nothing here is trusted. Entries come out with the generation that was noted beside them, so that an older one
in a newer one's place no longer unseals; blobs are checked against the digests that their entry names. Of every value
so much is asked for as can be ours, and what is no value of ours is as if it were not there. The races:

- A piece is evicted (maxmemory, TTL) while its entry lives: the blob is absent, the lookup INCOMPLETE, a miss.
- Two publish one blob: pieces may come from either; both sealed the same bytes under the same place.
- A publisher dies among its pieces: no entry names them yet, and they expire.
- A lease is ended by its entry's publication, so that nobody waits for a request to give it back that was lost.
- An owner that stalled past its lease publishes late: its result is as right as its successor's, and takes its place.
- An entry is quarantined while another replaces it: the script compares the two, and the new one stays.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from ...config.redis_urls import RemoteUrl
from ...format.codec import MAX_ENTRY_BYTES, VARIANT, check_name
from ...format.revocations import MAX_LIST_BYTES
from ...format.seal import MAX_HEADER_BYTES, after_generation, generation_of, with_generation
from ...process.calls import seconds_for, start_thread
from ...typing import BlobRef, SimilarEntry, StoreUnavailable
from ..similar import MAX_RECORD_BYTES, MAX_RECORDS, decode_relative, encode_relative
from . import chunks
from . import inspect as survey
from .client import WRITE_SECONDS, Client, Clients
from .names import REVOCATIONS, Names
from .requests import lengths_at, pipelined, read, stored, up_to, values_at
from .scripts import MAX_VARIANTS, PUT_ENTRY, RELATE, REMOVE_ENTRY, REVOKE, Argument, install
from .stream import StreamTail
from .ttl_refresh import TtlRefresher, told_every

logger = logging.getLogger(__package__)

T = TypeVar("T")

_BATCH_BYTES = 8 * 2**20  # of one pipeline of writes
_SCAN_SECONDS = 5.0  # for each key
_FIRST_BYTES = 2**16  # of a key's entries, in the round trip of a lookup: nearly always all of them
_MOST_BYTES = MAX_ENTRY_BYTES + MAX_HEADER_BYTES + 128  # of all of a key's entries
_TAIL_BYTES = 64  # of the list of revocations: in them is the time of the last one
_ENTRY = re.compile(rb"([a-z0-9][a-z0-9_-]{0,63}) (0|[1-9]\d{0,19}) (\d{1,9})\n")


class RedisStore:
    """Entries and blobs under one namespace of a Redis, Valkey, Cluster or Sentinel. Connects when first used.

    ttl: seconds that something unused is kept. token_of: of the lease under which this process made a key's entry, 0
    if there is none. revoked: takes the list of revocations that lies there, whenever it has grown. A hit is two round
    trips: `entries`, then `blobs`.
    """

    def __init__(
        self,
        url: RemoteUrl,
        *,
        namespace: str,
        ttl: float,
        readonly: bool = False,
        name: str = "redis",
        token_of: Callable[[str], int] = lambda key: 0,
        revoked: Callable[[bytes], object] = lambda data: None,
    ) -> None:
        if not ttl >= 1:
            raise ValueError(f"ttl={ttl!r}: expected 1 second or more")
        self.name = name
        self.url = url
        self.readonly = readonly
        self.names = Names(namespace)
        self.clients = Clients(url)
        self.token_of = token_of
        self._revoked = revoked
        self._revoked_tail = b""  # of the list, when it was last fetched
        self._ttl = round(min(ttl, 2**31))
        # Not a method of ours: a store that refers to itself would keep its connections until the gc comes.
        self._touches = TtlRefresher(partial(_prolong, self.clients, self._ttl), every=told_every(self._ttl))

    def warm_up(self) -> None:
        """Start connecting in the background, so that the first lookup finds connections.

        What is revoked is asked for as well: who hits in its folder alone makes no other round trip.
        """
        self.clients.warm_up()

        def learn() -> None:
            with suppress(StoreUnavailable):  # told by whoever asks for an entry
                self.fetch_revocations()

        start_thread(learn, "warmgraph-revocations")

    def connecting(self) -> bool:
        """Whether a connection is still being made, so that asking now would mean waiting for that."""
        return self.clients.small.connecting()

    # -- the Store protocol

    def entries(self, key: str) -> Iterator[tuple[str, bytes]]:
        yield from self._entries(key, self.clients.small, self.clients.deadline)

    def _entries(self, key: str, client: Client, seconds: float) -> list[tuple[str, bytes]]:
        name = self.names.entries(key)
        value, length, tail = client.run(partial(_looked_up, name=name), seconds, doing="read an entry")
        if tail not in (b"", self._revoked_tail):  # the list of revocations only grows: it ends otherwise
            self.fetch_revocations()
            self._revoked_tail = tail
        if len(value) < length <= _MOST_BYTES:
            seconds = seconds_for(length, self.clients.deadline)
            most: list[tuple[str | bytes, int]] = [(name, _MOST_BYTES)]
            whole = self.clients.large.run(
                partial(values_at, wanted=most), seconds, doing="read an entry", most_bytes=_MOST_BYTES
            )
            value = whole[0] or b""
        return _newest_first(value)

    def blob(self, ref: BlobRef) -> bytes | None:
        return self.blobs([ref]).get(ref.digest)

    def blobs(self, refs: Sequence[BlobRef]) -> dict[str, bytes]:
        """Raises CorruptBlob, which names the blob, besides StoreUnavailable."""
        wanted = {ref.digest: ref for ref in refs}
        found = {ref.digest: chunks.join(ref, [b""]) for ref in wanted.values() if not ref.size}
        places = [(ref, self._pieces(ref)) for ref in wanted.values() if ref.size]
        if not places:
            return found
        # One byte more than can be, so that what is too long is seen to be.
        asked = [(name, most + 1) for ref, names in places for name, most in zip(names, chunks.sizes(ref), strict=True)]
        size = sum(most for _, most in asked)
        answers = self.clients.large.run(
            lambda redis: values_at(redis, asked),
            seconds_for(size, self.clients.deadline),
            doing="read a blob",
            idle_timeout=self.clients.deadline,  # a server that falls silent is not given the time of one that sends
            most_bytes=size,
        )
        values = iter(answers)
        for ref, names in places:
            parts = [part for part in (next(values) for _ in names) if part is not None]
            if len(parts) == len(names):
                found[ref.digest] = chunks.join(ref, parts)
        return found

    def has_blob(self, ref: BlobRef) -> bool:
        """By the lengths of its pieces: what cannot be it is to be written again."""
        names = self._pieces(ref)
        lengths = self._read("look for a blob", lambda redis: lengths_at(redis, names))
        return all(0 < length <= most for length, most in zip(lengths, chunks.sizes(ref), strict=True) if most)

    def put_blob(self, ref: BlobRef, data: bytes) -> None:
        """Writes always: so publishing again heals what was damaged or stripped of a piece."""
        names = self._pieces(ref)
        self._check_writable()
        batch: list[tuple[Any, ...]] = []
        size = 0
        for name, piece in zip(names, chunks.cut(ref, data), strict=True):
            if batch and size + len(piece) > _BATCH_BYTES:
                self._store("write a blob", batch, size)
                batch, size = [], 0
            batch.append(("SET", name, piece, "EX", self._ttl))
            size += len(piece)
        self._store("write a blob", batch, size)

    def put_entry(self, key: str, variant: str, sealed: bytes) -> None:
        keys = [self.names.entries(key), self.names.lease(key), self.names.fence(key)]
        check_name(VARIANT, variant, "variant")
        self._check_writable()
        generation = str(generation_of(sealed))
        arguments: list[Argument] = [variant, generation, sealed, self._ttl, _MOST_BYTES, str(self.token_of(key))]
        self._write("write an entry", lambda redis: PUT_ENTRY.run(redis, keys, arguments), len(sealed))

    def touch(self, key: str, variant: str, refs: Sequence[BlobRef] = ()) -> None:
        names = [self.names.entries(key), *(name for ref in refs for name in self._pieces(ref))]
        check_name(VARIANT, variant, "variant")
        if not self.readonly:
            self._touches.note(key, variant, names)

    def quarantine(self, key: str, variant: str, why: str, sealed: bytes | None = None) -> None:
        """There is no place for it on a server that others write to: the entry is removed."""
        name = self.names.entries(key)
        check_name(VARIANT, variant, "variant")
        self._check_writable()
        arguments: list[Argument] = [variant, _MOST_BYTES, "", 0, b""]
        if sealed is not None:
            arguments = [variant, _MOST_BYTES, str(generation_of(sealed)), *after_generation(sealed)]
        self._write("remove an entry", lambda redis: REMOVE_ENTRY.run(redis, [name], arguments))
        logger.debug("an entry is removed from %s (%.16s, %s): %s", self.url.masked, key, variant, why)

    def drop_blob(self, ref: BlobRef) -> None:
        names = self._pieces(ref)
        self._check_writable()
        self._write("remove a blob", lambda redis: pipelined(redis, (("UNLINK", name) for name in names)))

    def path_of(self, ref: BlobRef) -> Path | None:
        return None

    def relate(self, addresses: Sequence[str], relative: SimilarEntry) -> None:
        record = encode_relative(relative)
        places = [self.names.near(address) for address in addresses]
        self._check_writable()
        arguments: list[Argument] = [relative.key, record, self._ttl, MAX_RECORDS, MAX_RECORD_BYTES]
        for name in places:  # on a cluster each lies elsewhere
            self._write("note an entry", partial(RELATE.run, keys=[name], arguments=arguments), len(record))

    def relatives(self, addresses: Sequence[str]) -> list[SimilarEntry]:
        most = MAX_RECORDS * (MAX_RECORD_BYTES + 1)
        asked: list[tuple[str | bytes, int]] = [(self.names.near(address), most) for address in addresses]
        found = self._read("look for what resembles an entry", partial(values_at, wanted=asked))
        records = (decode_relative(line) for value in found for line in (value or b"").splitlines()[:MAX_RECORDS])
        return [relative for relative in records if relative is not None]

    # -- revocations: a list in a place of its own, of all namespaces

    def revoke(self, statement: bytes) -> None:
        """Add a statement to the list."""
        self._check_writable()
        arguments: list[Argument] = [statement, MAX_LIST_BYTES]
        self._write("write a revocation", partial(REVOKE.run, keys=[REVOCATIONS], arguments=arguments), len(statement))

    def fetch_revocations(self) -> bytes:
        """The list as it is now, handed over as well. Raises StoreUnavailable."""
        asked: list[tuple[str | bytes, int]] = [(REVOCATIONS, MAX_LIST_BYTES)]
        seconds = seconds_for(MAX_LIST_BYTES, self.clients.deadline)
        read_all = partial(values_at, wanted=asked)
        [value] = self.clients.large.run(read_all, seconds, doing="read revocations", most_bytes=MAX_LIST_BYTES)
        if value:
            self._revoked(value)
            self._revoked_tail = value[-_TAIL_BYTES:]
        return value or b""

    def install_scripts(self) -> int:
        """Load our scripts, for writers that may not; how many there are. Raises StoreUnavailable."""
        return self._write("load scripts", install, 0)

    # -- for tools and for whoever decides whether to use this store

    def probe(self, use: Literal["read", "write"]) -> None:
        """A cheap request of the kind that lookups, or publishes, make. Raises StoreUnavailable."""
        if use == "read":
            name = self.names.probe
            self._read("read", lambda redis: values_at(redis, [(name, 1)]))
        else:
            self._check_writable()
            self._store("write", [("SET", self.names.probe, b"1", "PX", 1000)], 0)

    def flush_touches(self, timeout: float) -> bool:
        """Wait until what `touch` noted is sent; False when `timeout` seconds were too few."""
        return self._touches.flush(timeout)

    def scan(self, prefix: str = "") -> Iterator[tuple[str, str, bytes]]:
        """(key, variant, sealed) of every entry, in no order; some twice or not at all while others write.

        prefix: only those whose key begins so.
        """
        for key in survey.keys(self.clients, self.names, prefix):
            found = self._entries(key, self.clients.large, max(_SCAN_SECONDS, self.clients.deadline))
            yield from ((key, variant, sealed) for variant, sealed in found)

    def usage(self, *, count_bytes: bool = False) -> survey.RemoteUsage:
        """How much of this namespace is there. count_bytes: asks for each piece's length, besides."""
        return survey.usage(self.clients, self.names, (1 for _ in self.scan()), count_bytes=count_bytes)

    def tail(self, since: float | None = None) -> StreamTail:
        """The fleet's journal, as lines; `decode_event` trusts none of them."""
        return StreamTail(self.clients, self.names.namespace, since)

    def ping(self) -> dict[str, Any]:
        """What `warmgraph ping` shows; see `survey.ping`."""
        return survey.ping(self.clients, self.names, readonly=self.readonly)

    # -- inside

    def _pieces(self, ref: BlobRef) -> list[str]:
        return self.names.pieces(ref.digest, chunks.count(ref))

    def _check_writable(self) -> None:
        if self.readonly:
            raise StoreUnavailable(f"{self.url.masked} was opened read-only")

    def _read(self, doing: str, work: Callable[[Any], T]) -> T:
        return self.clients.small.run(work, self.clients.deadline, doing=doing)

    def _write(self, doing: str, work: Callable[[Any], T], size: int = 0) -> T:
        return _write(self.clients, doing, work, size)

    def _store(self, doing: str, commands: Sequence[tuple[Any, ...]], size: int) -> None:
        self._write(doing, lambda redis: stored(redis, commands), size)


def _write(clients: Clients, doing: str, work: Callable[[Any], T], size: int) -> T:
    seconds = seconds_for(size, max(WRITE_SECONDS, clients.deadline))
    return clients.large.run(work, seconds, doing=doing, use="write", inline=True)


def _prolong(clients: Clients, ttl: int, names: Sequence[str]) -> None:
    commands = [("EXPIRE", name, ttl) for name in names]
    _write(clients, "prolong what was used", lambda redis: pipelined(redis, commands), 0)


def _looked_up(redis: Any, name: str) -> tuple[bytes, int, bytes]:
    """One round trip: the beginning of a key's entries, their length in all, the end of the list of revocations."""
    commands = [up_to(name, _FIRST_BYTES), ("STRLEN", name), ("GETRANGE", REVOCATIONS, -_TAIL_BYTES, -1)]
    value, length, tail = read(redis, commands)
    value, length, tail = value or b"", length or 0, tail or b""
    if not (isinstance(value, bytes) and len(value) <= _FIRST_BYTES and isinstance(length, int)):
        raise ValueError("not the answers to GETRANGE and STRLEN")
    if not (isinstance(tail, bytes) and len(tail) <= _TAIL_BYTES):
        raise ValueError("not the answer to GETRANGE")
    return value, length, tail


def _newest_first(value: bytes) -> list[tuple[str, bytes]]:
    """The entries in a value of `names`, as they are to be unsealed. What is not ours is passed by."""
    entries: list[tuple[int, str, bytes]] = []
    at = 0
    while (match := _ENTRY.match(value, at)) is not None:
        at = match.end() + int(match[3])
        if at > len(value) or len(entries) >= MAX_VARIANTS:
            break
        if int(match[2]) < 2**64:
            sealed = with_generation(value[match.end() : at], int(match[2]))
            entries.append((-int(match[2]), match[1].decode("ascii"), sealed))
    return [(variant, sealed) for _, variant, sealed in sorted(entries)]
