"""A bundle: entries and their blobs in one file, to bake a warm cache into an image. Not which are chosen (`transfer`).

Written and read in one pass, so that it goes through a pipe; at most one entry with its blobs is in memory.

    preamble    `warmgraph bundle 1\n`, 16 random bytes: this bundle's id
    frame       head: seal(`bundle 1 <id> <number>`, kind, size of body, sha256 of body), then the body
    ...         blobs (kinds 1, and 2 for kernels), each once, before the first entry that names it;
                entries (kind 3): key, `\n`, the sealed entry as it will lie in a store
    last frame  kind 4: how many blobs and entries came before. Then the bundle ends.

A head is of fixed size and sealed like an entry (`seal`), by the signing key where there is one. It is verified
before its body is read, and the body before anything is done with it; so nobody without the key makes a reader
reserve memory or write a byte. The seal covers the frame's place in this bundle, which is what a hash over all
that came before would give, at once instead of at the end: a frame that is moved, doubled, left out or taken from
another bundle fails, and without its last frame a bundle is known to be cut short. The idea of verifying a stream
in pieces whose seals hold their place and an end mark is STREAM's (Hoang, Reyhanitabar, Rogaway, Vizár, 2015).
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterable
from dataclasses import replace
from typing import BinaryIO

from ..format.codec import KEY, MAX_BLOB_BYTES, MAX_ENTRY_BYTES
from ..format.seal import CHECKSUM, HEADER_BYTES, Signer, Verifier, as_checked, reseal, seal, unseal
from ..stores.disk.layout import EntryFile
from ..typing import BlobRef, CorruptEntry, Entry, Role, Store, StoreUnavailable, Untrusted
from .transfer import Incomplete, Place, Transferred, Watch, note, open_sealed, place_of, read_blobs, read_local

_FAMILY = b"warmgraph bundle "
_PREAMBLE = _FAMILY + b"1\n"
_ID_BYTES = 16
_HEAD = struct.Struct(">BQ32s")
_END = struct.Struct(">QQ")
_HEAD_BYTES = HEADER_BYTES + _HEAD.size
_STEP = 2**20

_BLOB, _KERNEL, _ENTRY, _LAST = 1, 2, 3, 4
_LIMITS = {
    _BLOB: MAX_BLOB_BYTES,
    _KERNEL: MAX_BLOB_BYTES,
    _ENTRY: 128 + HEADER_BYTES + MAX_ENTRY_BYTES,
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

    signer: seals the bundle, and each entry anew (its generation stays); without one they are only checksummed.
    Raises StoreUnavailable, and OSError of `out`: what was written then is no whole bundle.
    """
    writer = _Writer(out, signer)
    report = Transferred()
    for key, variant, sealed in read_local(files):
        try:
            entry = open_sealed(key, variant, sealed, verifier)
            blobs = read_blobs(store, [ref for ref in entry.blobs if place_of(ref) not in writer.written])
        except CorruptEntry as error:
            report = report.and_left_out(error)
        else:
            writer.put(entry, reseal(key, sealed, signer), blobs)
            report = replace(report, entries=writer.entries, blobs=len(writer.written), bytes=writer.bytes)
        watch(report)
    writer.finish()
    return replace(report, bytes=writer.bytes)


def import_bundle(
    source: BinaryIO, store: Store, *, verifier: Verifier, watch: Watch = lambda report: None
) -> Transferred:
    """Write what is in a bundle to `store`, a private one: there its entries have checksums, no signatures.

    Raises nothing for what the bundle holds. `stopped` says why reading ended before the bundle's end: Untrusted
    (whose words say what to do; nothing was read), Truncated, CorruptEntry, or StoreUnavailable. What was written
    until then is good, each entry by itself.
    """
    importing = _Import(store, verifier)
    try:
        reader = _Reader(source, verifier)
        while (frame := reader.frame()) is not None:
            importing.take(*frame)
            watch(importing.report)
    except (CorruptEntry, StoreUnavailable) as error:
        return replace(importing.report, stopped=error)
    return importing.report


# -- writing


class _Writer:
    """Frames to a stream. written: the places of the blobs in it. bytes: of everything."""

    def __init__(self, out: BinaryIO, signer: Signer | None) -> None:
        self.written: set[Place] = set()
        self.entries = 0
        self.bytes = 0
        self._out = out
        self._signer = signer
        self._id = os.urandom(_ID_BYTES)
        self._number = 0
        self._send(_PREAMBLE + self._id)

    def put(self, entry: Entry, sealed: bytes, blobs: Iterable[tuple[BlobRef, bytes]]) -> None:
        for ref, data in blobs:
            self._frame(_KERNEL if ref.role is Role.CPP_KERNEL else _BLOB, data, bytes.fromhex(ref.digest))
            self.written.add(place_of(ref))
        self._frame(_ENTRY, entry.key.encode("ascii") + b"\n" + sealed)
        self.entries += 1

    def finish(self) -> None:
        self._frame(_LAST, _END.pack(len(self.written), self.entries))
        self._out.flush()

    def _frame(self, kind: int, body: bytes, digest: bytes | None = None) -> None:
        head = _HEAD.pack(kind, len(body), digest or hashlib.sha256(body).digest())
        self._send(seal(_place(self._id, self._number), head, self._signer))
        self._send(body)
        self._number += 1

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:  # an unbuffered stream may take less than it was given
            view = view[self._out.write(view) :]
        self.bytes += len(data)


def _place(bundle: bytes, number: int) -> str:
    return f"bundle 1 {bundle.hex()} {number}"


# -- reading


class _Import:
    """What was written to the store so far. places: of the blobs that are there."""

    def __init__(self, store: Store, verifier: Verifier) -> None:
        self.report = Transferred()
        self._store = store
        self._verifier = verifier
        self._places: set[Place] = set()

    def take(self, kind: int, body: bytes, digest: str) -> None:
        """One frame that is right. An entry that is not is counted: that a bundle is signed makes no entry good."""
        if kind == _ENTRY:
            try:
                self._put_entry(body)
            except CorruptEntry as error:
                self.report = self.report.and_left_out(error)
        elif kind == _LAST:
            self._check_end(body)
        else:
            self._put_blob(digest, body, kernel=kind == _KERNEL)

    def _put_blob(self, digest: str, data: bytes, *, kernel: bool) -> None:
        # Role and name are its entries' to say; a store needs to know kernels from the rest, no more.
        role = Role.CPP_KERNEL if kernel else Role.AOT_RESULT
        ref = BlobRef(digest, len(data), role, digest[:12], "raw", len(data))
        self._store.put_blob(ref, data)
        self._places.add(place_of(ref))
        self.report = replace(self.report, blobs=self.report.blobs + 1, bytes=self.report.bytes + len(data))

    def _put_entry(self, body: bytes) -> None:
        name, _, sealed = body.partition(b"\n")
        key = name.decode("ascii", "replace")
        if not KEY.fullmatch(key):
            raise CorruptEntry("an entry without a key")
        entry = open_sealed(key, None, sealed, self._verifier)
        for ref in entry.blobs:
            if place_of(ref) not in self._places:
                raise Incomplete(f"blob {ref.name!r:.80} is not in the bundle before the entry that names it")
        # With a checksum from here on: a local folder is private, and whoever uses it may not have the key (an image).
        self._store.put_entry(key, entry.variant, as_checked(key, sealed))
        note(self._store, entry)
        self.report = replace(self.report, entries=self.report.entries + 1, bytes=self.report.bytes + len(sealed))

    def _check_end(self, body: bytes) -> None:
        if len(body) != _END.size or _END.unpack(body)[0] != self.report.blobs:
            raise CorruptEntry("its last frame counts other blobs than came before")
        if _END.unpack(body)[1] != self.report.entries + self.report.left_out:
            raise CorruptEntry("its last frame counts other entries than came before")


class _Reader:
    """Frames from a stream, each verified. Raises CorruptEntry (Truncated, Untrusted) and nothing else."""

    def __init__(self, source: BinaryIO, verifier: Verifier) -> None:
        self._source = source
        self._verifier = verifier
        self._number = 0
        self._ended = False
        preamble = self._take(len(_PREAMBLE))[0]
        if preamble != _PREAMBLE:
            another = preamble.startswith(_FAMILY)
            raise CorruptEntry("a bundle of another version of warmgraph" if another else "not a bundle of warmgraph")
        self._id = self._take(_ID_BYTES)[0]

    def frame(self) -> tuple[int, bytes, str] | None:
        """(kind, body, sha256 of body in hex) of the next frame; None after the last one."""
        if self._ended:
            self._expect_nothing()
            return None
        kind, size, digest = self._head(self._take(_HEAD_BYTES)[0])
        body, found = self._take(size)
        if found != digest:
            raise CorruptEntry(f"frame {self._number} is damaged")
        self._number += 1
        self._ended = kind == _LAST
        return kind, body, digest.hex()

    def _head(self, sealed: bytes) -> tuple[int, int, bytes]:
        try:
            head = unseal(_place(self._id, self._number), sealed, self._trusted)
        except Untrusted:
            raise
        except CorruptEntry as error:
            raise CorruptEntry(f"frame {self._number} is damaged, or is not the one that belongs here") from error
        kind, size, digest = _HEAD.unpack(head)
        if size > _LIMITS.get(kind, -1):
            raise CorruptEntry(f"frame {self._number} is of kind {kind} with {size} bytes, which cannot be")
        return kind, size, digest

    def _trusted(self, algorithm: int, key_id: bytes) -> Signer | None:
        """Two ways out, as when a remote store is refused for want of a key."""
        found = self._verifier(algorithm, key_id)
        if found is not None:
            return found
        if algorithm == CHECKSUM:
            raise Untrusted(
                "it is not signed, and whoever made or changed it could run code here. "
                "Export it again with WARMGRAPH_SIGNING_KEY_FILE set, to the same key file as here; "
                "or trust everyone it went through with WARMGRAPH_TRUST=network"
            )
        raise Untrusted(
            f"it is signed with key {key_id.hex()}, which is not known here. "
            "Set WARMGRAPH_SIGNING_KEY_FILE to a file that holds this key; "
            "or export it again with a key that is known here (`warmgraph config` lists them)"
        )

    def _take(self, count: int) -> tuple[bytes, bytes]:
        """`count` bytes and their sha256. Memory grows with what arrives, not with what is announced."""
        parts, hashing, left = [], hashlib.sha256(), count
        while left > 0:
            part = self._read(min(left, _STEP))
            if not part:
                raise Truncated(f"it ends within frame {self._number}, before its last one: it was cut short")
            hashing.update(part)
            parts.append(part)
            left -= len(part)
        return (parts[0] if len(parts) == 1 else b"".join(parts)), hashing.digest()

    def _expect_nothing(self) -> None:
        if self._read(1):
            raise CorruptEntry("something follows its last frame")

    def _read(self, count: int) -> bytes:
        try:
            return self._source.read(count)
        except OSError as error:
            raise Truncated(f"it cannot be read any further: {error.strerror or error}") from error
