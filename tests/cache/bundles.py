"""Bundles for tests: made, taken apart, put together wrongly. Not a test; loaded by the files beside it."""

from __future__ import annotations

import hashlib
import io
import os
import struct
from pathlib import Path
from typing import Any

from warmgraph.cache import (
    DiskStore,
    Keyring,
    Selection,
    Transferred,
    export_bundle,
    import_bundle,
    new_key,
    parse_keys,
    seal,
    select_local,
)
from warmgraph.cache.format.seal import HEADER_BYTES

RING = parse_keys(new_key())
PREAMBLE = len(b"warmgraph bundle 1\n") + 16
HEAD = struct.Struct(">BQ32s")
BLOB, KERNEL, ENTRY, LAST = 1, 2, 3, 4


def exported(store: DiskStore, ring: Keyring = RING, *, files: Any = None, **options: Any) -> bytes:
    out = io.BytesIO()
    chosen = select_local(store, Selection()) if files is None else files
    export_bundle(store, out, chosen, verifier=ring.verifier(unsigned=True), signer=ring.signer, **options)
    return out.getvalue()


def imported(data: bytes, root: Path, ring: Keyring = RING, *, unsigned: bool = False) -> tuple[Transferred, DiskStore]:
    store = DiskStore(root)
    report = import_bundle(io.BytesIO(data), store, verifier=ring.verifier(unsigned=unsigned))
    return report, store


def entries_in(store: DiskStore) -> dict[tuple[str, str], bytes]:
    return {(file.key, file.variant): file.path.read_bytes() for file in store.scan()}


def objects_in(store: DiskStore) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (store.root / "objects").rglob("*") if path.is_file()}


def frames(data: bytes) -> list[bytes]:
    """The bundle, cut at every frame; the first piece is the preamble."""
    pieces, at = [data[:PREAMBLE]], PREAMBLE
    while at < len(data):
        _, size, _ = HEAD.unpack(data[at + HEADER_BYTES : at + HEADER_BYTES + HEAD.size])
        end = at + HEADER_BYTES + HEAD.size + size
        pieces.append(data[at:end])
        at = end
    return pieces


def kind_of(frame: bytes) -> int:
    return frame[HEADER_BYTES]


def body_of(frame: bytes) -> bytes:
    return frame[HEADER_BYTES + HEAD.size :]


def bundle_of(bodies: list[tuple[int, bytes]], ring: Keyring = RING) -> bytes:
    """A bundle with right seals around anything; a second writing of the format, by its documentation."""
    identity = os.urandom(16)
    data = b"warmgraph bundle 1\n" + identity
    for number, (kind, body) in enumerate(bodies):
        head = HEAD.pack(kind, len(body), hashlib.sha256(body).digest())
        data += seal(f"bundle 1 {identity.hex()} {number}", head, ring.signer) + body
    return data


def end_of(blobs: int, entries: int) -> tuple[int, bytes]:
    return LAST, struct.pack(">QQ", blobs, entries)


def is_whole(store: DiskStore, ring: Keyring = RING) -> bool:
    """Whether every entry in the store would be believed and is complete."""
    for file in store.scan():
        found = DiskStore(store.root, verifier=ring.verifier(unsigned=True)).read_entry(file.key, file.variant)
        assert found is not None
        for ref in found[0].blobs:
            if hashlib.sha256(store.blob(ref) or b"").hexdigest() != ref.digest:
                return False
    return True
