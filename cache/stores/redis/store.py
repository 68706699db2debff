"""The Redis store: entries and blobs on a server that many hosts share. Not leases (`lease`), not surveys (`survey`).

Nothing here is trusted. Entries come out with the generation that was noted beside them, so that an older one
in a newer one's place no longer unseals; pieces of blobs are unsealed here. The races, and what each costs:

- A piece is evicted (maxmemory, TTL) while its entry lives: the blob is absent, the lookup INCOMPLETE, a miss.
- Two publish one blob: pieces may come from either; both sealed the same bytes under the same place.
- A publisher dies among its pieces: no entry names them yet, and they expire.
- A lease is ended by its entry's publication, so that nobody waits for a request to give it back that was lost.
- An owner that stalled past its lease publishes late: the fence is greater than its token, and it is ignored.
- An entry is quarantined while another replaces it: the script compares generations, and the new one stays.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from ...config.redis_urls import RemoteUrl
from ...format.codec import MAX_ENTRY_BYTES, VARIANT
from ...format.seal import HEADER_BYTES, Signer, Verifier, after_generation, generation_of, with_generation
from ...typing import BlobRef, SimilarEntry, StoreUnavailable
from ..similar import MAX_RECORDS, decode_relative, encode_relative
from . import chunks
from . import inspect as survey
from .calls import seconds_for
from .client import WRITE_SECONDS, Clients
from .names import GENERATION, Names, field_of
from .requests import hash_at, hashes_at, pipelined, stored, values_at
from .scripts import PUT_ENTRY, RELATE, REMOVE_ENTRY, Argument
from .stream import StreamTail
from .ttl_refresh import TtlRefresher

logger = logging.getLogger(__package__)

T = TypeVar("T")

_BATCH_BYTES = 8 * 2**20  # of one pipeline of writes


class RedisStore:
    """Entries and blobs under one namespace of a Redis, Valkey, Cluster or Sentinel. Connects when first used.

    ttl: seconds that something unused is kept. signer: seals blobs' pieces (None: a checksum); verifier: says whose
    seals count. A hit is two round trips: `entries`, then `blobs`.
    """

    def __init__(
        self,
        url: RemoteUrl,
        *,
        namespace: str,
        signer: Signer | None,
        verifier: Verifier,
        ttl: float,
        readonly: bool = False,
        name: str = "redis",
    ) -> None:
        if not ttl >= 1:
            raise ValueError(f"ttl={ttl!r}: expected 1 second or more")
        self.name = name
        self.url = url
        self.readonly = readonly
        self.names = Names(namespace)
        self.clients = Clients(url)
        self._signer = signer
        self._verifier = verifier
        self._ttl = round(min(ttl, 2**31))
        # Not a method of ours: a store that refers to itself would keep its connections until the gc comes.
        self._touches = TtlRefresher(partial(_prolong, self.clients, self._ttl))

    def warm_up(self) -> None:
        """Start connecting in the background, so that the first lookup finds connections."""
        self.clients.warm_up()

    def connecting(self) -> bool:
        """Whether a connection is still being made, so that asking now would mean waiting for that."""
        return self.clients.small.connecting()

    # -- the Store protocol

    def entries(self, key: str) -> Iterator[tuple[str, bytes]]:
        name = self.names.entries(key)
        yield from _newest_first(self._read("read an entry", lambda redis: hash_at(redis, name)))

    def blob(self, ref: BlobRef) -> bytes | None:
        return self.blobs([ref]).get(ref.digest)

    def blobs(self, refs: Sequence[BlobRef]) -> dict[str, bytes]:
        """Raises CorruptBlob or UntrustedBlob, which name the blob, besides StoreUnavailable."""
        wanted = {ref.digest: ref for ref in refs}
        places = [(ref, self._pieces(ref)) for ref in wanted.values()]
        names = [name for _, pieces in places for name in pieces]
        if not names:
            return {}
        seconds = seconds_for(sum(ref.size for ref in wanted.values()), self.clients.deadline)
        idle_timeout = self.clients.deadline  # a server that falls silent is not given the time of one that sends
        answers = self.clients.large.run(
            lambda redis: values_at(redis, names), seconds, doing="read a blob", idle_timeout=idle_timeout
        )
        values = iter(answers)
        found = {}
        for ref, pieces in places:
            parts = [part for part in (next(values) for _ in pieces) if part is not None]
            if len(parts) == len(pieces):
                found[ref.digest] = chunks.join(ref, parts, self._verifier)
        return found

    def has_blob(self, ref: BlobRef) -> bool:
        names = self._pieces(ref)
        return all(self._read("look for a blob", lambda redis: pipelined(redis, (("EXISTS", name) for name in names))))

    def put_blob(self, ref: BlobRef, data: bytes) -> None:
        """Writes always: so publishing again heals what was damaged or stripped of a piece."""
        names = self._pieces(ref)
        self._check_writable()
        batch: list[tuple[Any, ...]] = []
        size = 0
        for name, piece in zip(names, chunks.cut(ref, data, self._signer), strict=True):
            if batch and size + len(piece) > _BATCH_BYTES:
                self._store("write a blob", batch, size)
                batch, size = [], 0
            batch.append(("SET", name, piece, "EX", self._ttl))
            size += len(piece)
        self._store("write a blob", batch, size)

    def put_entry(self, key: str, variant: str, sealed: bytes) -> None:
        keys = [self.names.entries(key), self.names.fence(key), self.names.lease(key)]
        sealed_field, generation_field = field_of(variant)
        self._check_writable()
        generation = str(generation_of(sealed))
        arguments: list[Argument] = [sealed_field, generation_field, generation, sealed, self._ttl]
        if not self._write("write an entry", lambda redis: PUT_ENTRY.run(redis, keys, arguments), len(sealed)):
            logger.info("an entry is not published (%.16s, %s): a newer one is there or on its way", key, variant)

    def touch(self, key: str, variant: str, refs: Sequence[BlobRef] = ()) -> None:
        names = [self.names.entries(key), *(name for ref in refs for name in self._pieces(ref))]
        field_of(variant)
        if not self.readonly:
            self._touches.note(key, variant, names)

    def quarantine(self, key: str, variant: str, why: str, sealed: bytes | None = None) -> None:
        """There is no place for it on a server that others write to: the entry is removed."""
        name, fields = self.names.entries(key), field_of(variant)
        self._check_writable()
        arguments: list[Argument] = [*fields, "", 0, b""]
        if sealed is not None:
            arguments = [*fields, str(generation_of(sealed)), *after_generation(sealed)]
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
        arguments: list[Argument] = [relative.key, record, self._ttl, MAX_RECORDS]
        for name in places:  # on a cluster each lies elsewhere
            self._write("note an entry", partial(RELATE.run, keys=[name], arguments=arguments), len(record))

    def relatives(self, addresses: Sequence[str]) -> list[SimilarEntry]:
        names = [self.names.near(address) for address in addresses]
        found = self._read("look for what resembles an entry", partial(hashes_at, names=names))
        records = (decode_relative(record) for fields in found for record in fields.values())
        return [relative for relative in records if relative is not None]

    # -- for tools and for whoever decides whether to use this store

    def probe(self, use: Literal["read", "write"]) -> None:
        """A cheap request of the kind that lookups, or publishes, make. Raises StoreUnavailable."""
        if use == "read":
            absent, name = self.names.entries(f"wg1{'0' * 64}"), self.names.probe
            self._read("read", lambda redis: (hash_at(redis, absent), values_at(redis, [name])))
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
        for key, found in survey.scan(self.clients, self.names, prefix):
            yield from ((key, variant, sealed) for variant, sealed in _newest_first(found))

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


def _newest_first(found: dict[bytes, bytes]) -> list[tuple[str, bytes]]:
    """The entries in a hash of `names`, as they are to be unsealed. What is not ours is passed by."""
    entries = []
    for name, sealed in found.items():
        variant = name.decode("ascii", "replace")
        if VARIANT.fullmatch(variant) and len(sealed) <= HEADER_BYTES + MAX_ENTRY_BYTES:
            noted = found.get(GENERATION + name, b"")
            generation = int(noted) if noted.isdigit() and len(noted) <= 20 else 0
            generation = generation if generation < 2**64 else 0  # and then it does not unseal
            entries.append((-generation, variant, with_generation(sealed, generation)))
    return [(variant, sealed) for _, variant, sealed in sorted(entries)]
