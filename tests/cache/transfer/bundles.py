"""Bundles for tests: made, taken apart, put together wrongly. Not a test; loaded by the files beside it."""

from __future__ import annotations

import hashlib
import io
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
    select_local,
)

RING = parse_keys(new_key())
PREAMBLE = len(b"warmgraph bundle 2 default\n")
HEAD = struct.Struct(">BQ32s8s")
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
        _, size, _, _ = HEAD.unpack(data[at : at + HEAD.size])
        end = at + HEAD.size + size
        pieces.append(data[at:end])
        at = end
    return pieces


def kind_of(frame: bytes) -> int:
    return frame[0]


def body_of(frame: bytes) -> bytes:
    return frame[HEAD.size :]


def bundle_of(bodies: list[tuple[int, bytes]]) -> bytes:
    """A bundle of anything; a second writing of the format, by its documentation."""
    data = b"warmgraph bundle 2 default\n"
    for number, (kind, body) in enumerate(bodies):
        data += head_of(number, kind, len(body), hashlib.sha256(body).digest()) + body
    return data


def head_of(number: int, kind: int, size: int, digest: bytes) -> bytes:
    check = hashlib.sha256(f"{number} {kind} {size} {digest.hex()}".encode()).digest()[:8]
    return HEAD.pack(kind, size, digest, check)


def end_of(entries: int, blobs: int) -> tuple[int, bytes]:
    return LAST, struct.pack(">QQ", entries, blobs)


def is_whole(store: DiskStore, ring: Keyring = RING) -> bool:
    """Whether every entry in the store would be believed and is complete."""
    for file in store.scan():
        found = DiskStore(store.root, verifier=ring.verifier(unsigned=True)).read_entry(file.key, file.variant)
        assert found is not None
        for ref in found[0].blobs:
            if hashlib.sha256(store.blob(ref) or b"").hexdigest() != ref.digest:
                return False
    return True
