"""A bundle: entries and their blobs in one file, to bake a warm cache into an image. Not which are chosen (`transfer`).

    preamble    `warmgraph bundle 2 <namespace>\\n`
    frame       kind, size of body, sha256 of body, 8 bytes that check these and the frame's number; then the body
    entries     (kind 3) key, `\\n`, the sealed entry, as whoever signed it left it
    blobs       (kinds 1, and 2 for kernels) each once
    last frame  (kind 4) how many entries and blobs came before. Then the bundle ends.

Nobody signs a bundle: each entry is signed, and names its blobs by their digests. A reader verifies the entries, and
takes of the blobs only those that a verified entry names, of the size that it says; others are passed by as they come.
So nobody without a key that is believed makes a reader reserve memory or write a byte, and who only has public keys
can pass a bundle on. Written and read in one pass, so that it goes through a pipe; in memory are the entries' own
bytes and one blob. Frames are checksummed and counted so that damage and a cut are told as such.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from msgspec.structs import replace

from ..format.codec import KEY, MAX_BLOB_BYTES, MAX_ENTRY_BYTES
from ..format.seal import (
    MAX_HEADER_BYTES,
    Signer,
    Verifier,
    accept_checksum,
    as_relayed,
    generation_of,
    signed_if_ours,
)
from ..stores.disk.layout import EntryFile
from ..typing import BlobRef, CorruptEntry, Entry, Role, Store, StoreUnavailable
from .transfer import Incomplete, Place, Transferred, Watch, note, open_sealed, place_of, read_blobs, read_local

_FAMILY = b"warmgraph bundle "
_PREAMBLE = re.compile(rb"warmgraph bundle 2 ([A-Za-z0-9._-]{1,64})\n")
_MAX_PREAMBLE = 128
_HEAD = struct.Struct(">BQ32s8s")
_END = struct.Struct(">QQ")
_STEP = 2**20

_BLOB, _KERNEL, _ENTRY, _LAST = 1, 2, 3, 4
_LIMITS = {
    _BLOB: MAX_BLOB_BYTES,
    _KERNEL: MAX_BLOB_BYTES,
    _ENTRY: 128 + MAX_HEADER_BYTES + MAX_ENTRY_BYTES,
    _LAST: _END.size,
}


class Truncated(CorruptEntry):
    """A bundle that ends before its last frame: it was cut short, or its source cannot be read any further."""


def export_bundle(
    store: Store,
    out: BinaryIO,
    files: Iterable[EntryFile],
    *,
    verifier: Verifier,
    signer: Signer | None = None,
    watch: Watch = lambda report: None,
) -> Transferred:
    """Write `files`, which are entries of `store`, to `out`, in their order. Damaged ones are left out and counted.

    signer: signs what this host made without a key; what is signed keeps its signature.
    Raises StoreUnavailable, and OSError of `out`: what was written then is no whole bundle.
    """
    report, chosen = Transferred(), []
    for key, variant, sealed in read_local(files):
        try:
            entry = open_sealed(key, variant, sealed, verifier)
            read_blobs(store, entry.blobs)
        except CorruptEntry as error:
            report = report.and_left_out(error)
        else:
            chosen.append((entry, signed_if_ours(key, sealed, signer, namespace=verifier.namespace)))
    writer = _Writer(out, verifier.namespace)
    for entry, sealed in chosen:
        writer.frame(_ENTRY, entry.key.encode("ascii") + b"\n" + sealed)
    blobs = {place_of(ref): ref for entry, _ in chosen for ref in entry.blobs}
    for number, ref in enumerate(blobs.values(), start=1):
        try:
            [(_, data)] = read_blobs(store, [ref])
        except CorruptEntry:  # evicted since: who imports finds its entries incomplete
            continue
        writer.frame(_KERNEL if ref.role is Role.CPP_KERNEL else _BLOB, data)
        watch(replace(report, entries=len(chosen), blobs=number, bytes=writer.bytes))
    written = writer.finish()
    return replace(report, entries=len(chosen), blobs=written, bytes=writer.bytes)


def import_bundle(
    source: BinaryIO,
    store: Store,
    *,
    verifier: Verifier,
    here: Verifier = accept_checksum,
    watch: Watch = lambda report: None,
) -> Transferred:
    """Write what is in a bundle to `store`, a private one. What is signed keeps its signature.

    here: whose seals are believed in `store`: a newer entry that they cover is not replaced, and counts as skipped.
    Raises nothing for what the bundle holds. `stopped` says why reading ended before the bundle's end: Truncated,
    CorruptEntry, or StoreUnavailable. What was written until then is good, each entry by itself.
    """
    importing = _Import(store, verifier, here)
    try:
        reader = _Reader(source, verifier.namespace)
        while (head := reader.head()) is not None:
            importing.take(reader, *head)
            watch(importing.report)
        importing.end()
    except (CorruptEntry, StoreUnavailable) as error:
        return replace(importing.report, stopped=error)
    return importing.report


# -- writing


class _Writer:
    """Frames to a stream. bytes: of everything."""

    def __init__(self, out: BinaryIO, namespace: str) -> None:
        self.bytes = 0
        self._out = out
        self._counts = dict.fromkeys(_LIMITS, 0)
        self._send(_FAMILY + f"2 {namespace}\n".encode())

    def frame(self, kind: int, body: bytes) -> None:
        head = kind, len(body), hashlib.sha256(body).digest()
        self._send(_HEAD.pack(*head, _check(sum(self._counts.values()), *head)))
        self._send(body)
        self._counts[kind] += 1

    def finish(self) -> int:
        """The end; how many blobs were written."""
        blobs = self._counts[_BLOB] + self._counts[_KERNEL]
        self.frame(_LAST, _END.pack(self._counts[_ENTRY], blobs))
        self._out.flush()
        return blobs

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:  # an unbuffered stream may take less than it was given
            view = view[self._out.write(view) :]
        self.bytes += len(data)


def _check(number: int, kind: int, size: int, digest: bytes) -> bytes:
    return hashlib.sha256(f"{number} {kind} {size} {digest.hex()}".encode()).digest()[:8]


# -- reading


class _Waiting:
    """A verified entry whose blobs have not all come yet."""

    __slots__ = ("entry", "missing", "sealed")

    def __init__(self, entry: Entry, sealed: bytes) -> None:
        self.entry = entry
        self.sealed = sealed
        self.missing = {place_of(ref) for ref in entry.blobs}


class _Import:
    """What was written to the store so far, and what is waited for. wanted: by a blob's place, who names it."""

    def __init__(self, store: Store, verifier: Verifier, here: Verifier) -> None:
        self.report = Transferred()
        self._store = store
        self._verifier = verifier
        self._here = here
        self._waiting: dict[int, _Waiting] = {}
        self._wanted: dict[Place, list[_Waiting]] = {}
        self._entries = self._blobs = 0

    def take(self, reader: _Reader, kind: int, size: int, digest: str) -> None:
        """One frame. An entry that is not right is counted; a blob that no right entry names is passed by."""
        if kind == _ENTRY:
            self._entries += 1
            body = reader.body()
            try:
                self._await(body)
            except CorruptEntry as error:
                self.report = self.report.and_left_out(error)
        elif kind == _LAST:
            if reader.body() != _END.pack(self._entries, self._blobs):
                raise CorruptEntry("its last frame counts otherwise than what came before")
        else:
            self._blobs += 1
            waiting = self._wanted.pop((digest, kind == _KERNEL, size), [])
            if not waiting:
                reader.skip()
                return
            # Role and name are its entries' to say; a store needs to know kernels from the rest, no more.
            role = Role.CPP_KERNEL if kind == _KERNEL else Role.AOT_RESULT
            ref = BlobRef(digest, size, role, digest[:12], "raw", size)
            self._store.put_blob(ref, reader.body())
            self.report = replace(self.report, blobs=self.report.blobs + 1, bytes=self.report.bytes + size)
            for one in waiting:
                one.missing.discard(place_of(ref))
                self._put_if_whole(one)

    def end(self) -> None:
        for one in self._waiting.values():
            self.report = self.report.and_left_out(Incomplete(f"blobs of {one.entry.key:.16} are not in the bundle"))

    def _await(self, body: bytes) -> None:
        name, _, sealed = body.partition(b"\n")
        key = name.decode("ascii", "replace")
        if not KEY.fullmatch(key):
            raise CorruptEntry("an entry without a key")
        entry = open_sealed(key, None, sealed, self._verifier)
        one = _Waiting(entry, as_relayed(key, sealed, namespace=self._verifier.namespace))
        if self._is_newer_here(one):
            self.report = replace(self.report, skipped=self.report.skipped + 1)
            return
        self._waiting[id(one)] = one
        for place in one.missing:
            self._wanted.setdefault(place, []).append(one)
        self._put_if_whole(one)

    def _is_newer_here(self, one: _Waiting) -> bool:
        for variant, sealed in self._store.entries(one.entry.key):
            if variant == one.entry.variant and generation_of(sealed) > generation_of(one.sealed):
                try:
                    there = open_sealed(one.entry.key, variant, sealed, self._here)
                except CorruptEntry:
                    return False
                return all(self._store.has_blob(ref) for ref in there.blobs)
        return False

    def _put_if_whole(self, one: _Waiting) -> None:
        if one.missing:
            return
        self._store.put_entry(one.entry.key, one.entry.variant, one.sealed)
        note(self._store, one.entry)
        del self._waiting[id(one)]
        report = self.report
        self.report = replace(report, entries=report.entries + 1, bytes=report.bytes + len(one.sealed))


class _Reader:
    """Frames from a stream: `head`, and then `body` or `skip`. Raises CorruptEntry (Truncated) and nothing else."""

    def __init__(self, source: BinaryIO, namespace: str) -> None:
        self._source = source
        self._number = 0
        self._ended = False
        self._head = (0, 0, "")
        line = b""
        while not line.endswith(b"\n") and len(line) < _MAX_PREAMBLE and (byte := self._read(1)):
            line += byte
        match = _PREAMBLE.fullmatch(line)
        if match is None:
            if not line.endswith(b"\n") and (_FAMILY.startswith(line) or line.startswith(_FAMILY)):
                raise Truncated("it ends within its first line: it was cut short")
            another = line.startswith(_FAMILY)
            raise CorruptEntry("a bundle of another version of warmgraph" if another else "not a bundle of warmgraph")
        theirs = match[1].decode("ascii")
        if theirs != namespace:
            raise CorruptEntry(
                f"it is of namespace {theirs}, and its entries hold there alone: set WARMGRAPH_NAMESPACE={theirs} "
                f"(it is {namespace})"
            )

    def head(self) -> tuple[int, int, str] | None:
        """(kind, size of the body, its sha256 in hex) of the next frame; None after the last one."""
        if self._ended:
            if self._read(1):
                raise CorruptEntry("something follows its last frame")
            return None
        kind, size, digest, check = _HEAD.unpack(b"".join(self._parts(_HEAD.size)))
        if check != _check(self._number, kind, size, digest):
            raise CorruptEntry(f"frame {self._number} is damaged, or is not the one that belongs here")
        self._number += 1
        if size > _LIMITS.get(kind, -1):
            raise CorruptEntry(f"frame {self._number} is of kind {kind} with {size} bytes, which cannot be")
        self._ended = kind == _LAST
        self._head = kind, size, digest.hex()
        return self._head

    def body(self) -> bytes:
        return b"".join(self._checked())

    def skip(self) -> None:
        for _ in self._checked():
            pass

    def _checked(self) -> Iterator[bytes]:
        hashing = hashlib.sha256()
        for part in self._parts(self._head[1]):
            hashing.update(part)
            yield part
        if hashing.hexdigest() != self._head[2]:
            raise CorruptEntry(f"frame {self._number} is damaged")

    def _parts(self, count: int) -> Iterator[bytes]:
        """`count` bytes as they come. Memory grows with what arrives, not with what is announced."""
        while count > 0:
            part = self._read(min(count, _STEP))
            if not part:
                raise Truncated(f"it ends within frame {self._number}, before its last one: it was cut short")
            count -= len(part)
            yield part

    def _read(self, count: int) -> bytes:
        try:
            return self._source.read(count)
        except OSError as error:
            raise Truncated(f"it cannot be read any further: {error.strerror or error}") from error
