"""Bundles that are damaged, cut, reordered or made with malice: nothing that is not right ever reaches a store."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from warmgraph.cache import (
    BlobRef,
    CorruptEntry,
    DiskStore,
    Entry,
    Keyring,
    Role,
    Selection,
    Truncated,
    canonical_entry,
    decode_entry,
    export_bundle,
    import_bundle,
    new_key,
    parse_keys,
    seal,
    select_local,
)
from warmgraph.cache.format.seal import unverified_body, with_generation

_SPEC = importlib.util.spec_from_file_location("warmgraph_tests_bundles", Path(__file__).parent / "bundles.py")
assert _SPEC is not None and _SPEC.loader is not None
bundles = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(bundles)
RING = bundles.RING
PREAMBLE = bundles.PREAMBLE
HEAD = bundles.HEAD
BLOB = bundles.BLOB
KERNEL = bundles.KERNEL
ENTRY = bundles.ENTRY
LAST = bundles.LAST
exported = bundles.exported
imported = bundles.imported
entries_in = bundles.entries_in
objects_in = bundles.objects_in
frames = bundles.frames
kind_of = bundles.kind_of
bundle_of = bundles.bundle_of
end_of = bundles.end_of
head_of = bundles.head_of
is_whole = bundles.is_whole


# -- damage


class _Recording(DiskStore):
    """Notes what is written, and refuses what is not as it should be."""

    def __init__(self, root: Path, allowed: dict[Any, bytes]) -> None:
        super().__init__(root)
        self.allowed = allowed
        self.written = 0

    def put_blob(self, ref: BlobRef, data: bytes) -> None:
        assert hashlib.sha256(data).hexdigest() == ref.digest
        assert self.allowed[ref.digest] == data
        self.written += 1

    def put_entry(self, key: str, variant: str, sealed: bytes) -> None:
        assert self.allowed[key, variant] == sealed
        self.written += 1


@pytest.mark.parametrize("ring", [RING, Keyring()], ids=["signed", "unsigned"])
def test_every_flipped_byte_is_found(source: DiskStore, tmp_path: Path, ring: Keyring) -> None:
    """Whichever byte is flipped, reading stops with a reason, and only what was exported is ever written."""
    data = exported(source, ring)
    _, whole = imported(data, tmp_path / "whole", ring, unsigned=True)
    allowed: dict[Any, bytes] = {name.removesuffix(".so"): content for name, content in objects_in(whole).items()}
    allowed |= entries_in(whole)
    store = _Recording(tmp_path / "target", allowed)
    verifier = ring.verifier(unsigned=ring is not RING)
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << (place % 8)
        store.written = 0
        report = import_bundle(io.BytesIO(flipped), store, verifier=verifier)
        assert isinstance(report.stopped, CorruptEntry), place
        assert report.left_out == 0
        assert store.written == report.blobs + report.entries, place


def test_every_truncation_is_found(source: DiskStore, tmp_path: Path) -> None:
    """A bundle cut at any byte is Truncated; the entries before the cut are kept, and whole."""
    data = exported(source)
    boundaries, at = {}, 0
    needs: list[set[str]] = []
    there: set[str] = set()
    for piece in frames(data):
        at += len(piece)
        if at > PREAMBLE and kind_of(piece) == ENTRY:
            key, sealed = piece[HEAD.size :].split(b"\n", 1)
            needs.append({ref.digest for ref in decode_entry(key.decode(), unverified_body(sealed)).blobs})
        elif at > PREAMBLE:
            there.add(hashlib.sha256(piece[HEAD.size :]).hexdigest())
        boundaries[at] = sum(need <= there for need in needs)
    cuts = sorted({*boundaries, *range(0, len(data), 7), len(data) - 1} - {len(data)})
    for cut in cuts:
        report, store = imported(data[:cut], tmp_path / str(cut))
        assert isinstance(report.stopped, Truncated), cut
        kept = max((count for end, count in boundaries.items() if end <= cut), default=0)
        assert report.entries == len(entries_in(store)) == kept
        assert is_whole(store)


def test_frames_in_another_order_are_refused(source: DiskStore, tmp_path: Path) -> None:
    """Frames that are swapped, left out or doubled stop the import."""
    pieces = frames(exported(source))
    changed = []
    for i in range(1, len(pieces) - 1):
        swapped = list(pieces)
        swapped[i], swapped[i + 1] = swapped[i + 1], swapped[i]
        changed += [swapped, pieces[:i] + pieces[i + 1 :], [*pieces[: i + 1], *pieces[i:]]]
    changed += [
        pieces[:-1],
        [*pieces[:1], pieces[-1]],
        [*pieces, pieces[-1]],
        [*pieces, b"x"],
    ]
    for number, one in enumerate(changed):
        report, store = imported(b"".join(one), tmp_path / str(number))
        assert isinstance(report.stopped, CorruptEntry), number
        assert is_whole(store)


@pytest.mark.parametrize("kind", [BLOB, KERNEL, ENTRY, LAST, 0, 5, 255])
def test_a_length_bomb_reserves_nothing(tmp_path: Path, kind: int) -> None:
    """A head that announces what cannot be, or much that does not come, costs neither memory nor time."""
    for size in (2**64 - 1, 2**63, 4 * 2**30 + 1, 4 * 2**30, 17 * 2**20):
        head = head_of(0, kind, size, bytes(32))
        tracemalloc.start()
        report, _ = imported(b"warmgraph bundle 2 default\n" + head + b"x" * 1000, tmp_path / "t")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert isinstance(report.stopped, CorruptEntry)
        assert peak < 5 * 2**20


def test_memory_is_that_of_one_entry(opener: Any, make: Any, tmp_path: Path) -> None:
    """A bundle of 48 MB goes out and in with less than half of it in memory."""
    cache = opener()
    for number in range(12):
        cache.publish(make.draft(number), [(Role.AOT_RESULT, "aot", os.urandom(4 * 2**20))])
    assert cache.flush()
    store, place = DiskStore(opener.root), tmp_path / "bundle"
    ring = RING
    tracemalloc.start()
    with place.open("wb") as out:
        export_bundle(store, out, select_local(store, Selection()), verifier=ring.verifier(unsigned=True))
    with place.open("rb") as read:
        report = import_bundle(read, DiskStore(tmp_path / "t"), verifier=ring.verifier(unsigned=True))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report.entries == 12
    assert peak < 24 * 2**20


@pytest.mark.parametrize(
    "data", [b"", b"w", b"PK\x03\x04" + bytes(99), b"warmgraph bundle 1\n" + bytes(99), os.urandom(999)]
)
def test_what_is_no_bundle_is_refused(tmp_path: Path, data: bytes) -> None:
    """Another file, another version, nothing at all: a reason, and nothing written."""
    report, store = imported(data, tmp_path / "t", unsigned=True)
    assert isinstance(report.stopped, CorruptEntry)
    assert list(store.root.iterdir()) == []


# -- bundles that are signed and wrong


def entry_and_blob(make: Any, number: int = 1, **changes: Any) -> tuple[Entry, bytes]:
    data = b"blob %d" % number
    ref = BlobRef(hashlib.sha256(data).hexdigest(), len(data), Role.AOT_RESULT, "r", "raw", len(data))
    return replace(make.draft(number), blobs=(replace(ref, **changes),)), data


def sealed_body(entry: Entry, ring: Keyring = RING, *, under: str | None = None) -> bytes:
    key = under or entry.key
    return key.encode() + b"\n" + seal(entry.key, canonical_entry(entry), ring.signer, 7)


def test_an_entry_is_believed_by_its_own_seal_only(make: Any, tmp_path: Path) -> None:
    """In a rightly signed bundle: an unsigned entry, one of another key, one moved, one not whole are left out."""
    good, data = entry_and_blob(make)
    moved = sealed_body(good, under=make.key_of(9))
    signed = sealed_body(good)
    older = good.key.encode() + b"\n" + with_generation(signed.partition(b"\n")[2], 8)
    bad = {
        "untrusted": [sealed_body(good, Keyring()), sealed_body(good, parse_keys(new_key()))],
        "damaged": [
            moved,
            older,
            b"",
            b"\n",
            b"../../x\nabc",
            signed.replace(b"wg1", b"wg2", 1),
            signed[:-1],
            b"\xff\n",
        ],
        "incomplete": [
            sealed_body(entry_and_blob(make, 2)[0]),
            sealed_body(entry_and_blob(make, size=3)[0]),
            sealed_body(entry_and_blob(make, role=Role.CPP_KERNEL)[0]),
        ],
    }
    bodies = [(ENTRY, body) for group in bad.values() for body in group]
    report, store = imported(bundle_of([*bodies, (ENTRY, signed), (BLOB, data), end_of(14, 1)]), tmp_path / "t")
    assert report.stopped is None
    assert {name: getattr(report, name) for name in bad} == {name: len(group) for name, group in bad.items()}
    assert report.entries == 1
    assert list(entries_in(store)) == [(good.key, good.variant)]


def test_a_blob_that_no_entry_vouches_for_is_not_written(make: Any, tmp_path: Path) -> None:
    """Before its entry, or with an entry that is not believed: passed by, without a byte of memory or disk."""
    entry, data = entry_and_blob(make)
    stranger = sealed_body(entry, parse_keys(new_key()))
    for bodies in ([(BLOB, data), (ENTRY, sealed_body(entry))], [(ENTRY, stranger), (BLOB, data)]):
        report, store = imported(bundle_of([*bodies, end_of(1, 1)]), tmp_path / "t")
        assert (report.entries, report.blobs, report.left_out, report.stopped) == (0, 0, 1, None)
        assert list(store.root.iterdir()) == []


@pytest.mark.parametrize("end", [end_of(0, 0), end_of(2, 1), end_of(1, 2), (LAST, b""), (LAST, bytes(15))])
def test_the_last_frame_counts(make: Any, tmp_path: Path, end: Any) -> None:
    """Other counts than what came before are told, though each entry before is good."""
    entry, data = entry_and_blob(make)
    report, _ = imported(bundle_of([(ENTRY, sealed_body(entry)), (BLOB, data), end]), tmp_path / "t")
    assert report.entries == 1
    assert isinstance(report.stopped, CorruptEntry)
