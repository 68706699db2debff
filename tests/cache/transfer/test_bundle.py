"""Bundles: what goes in comes out, whose may come in, stores that fail meanwhile. Damage: `test_bundle_damage`."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from warmgraph.cache import (
    BlobRef,
    DiskStore,
    Hit,
    Keyring,
    Miss,
    Reason,
    Role,
    Selection,
    StoreUnavailable,
    Transferred,
    Truncated,
    canonical_entry,
    export_bundle,
    import_bundle,
    new_key,
    new_pair,
    parse_keys,
    seal,
    select_local,
)
from warmgraph.cache.format.seal import generation_of, same_entry, signer_of, unverified_body

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
body_of = bundles.body_of
bundle_of = bundles.bundle_of
is_whole = bundles.is_whole


# -- there and back


@pytest.mark.parametrize("ring", [RING, Keyring()], ids=["signed", "unsigned"])
def test_what_goes_in_comes_out(source: DiskStore, tmp_path: Path, ring: Keyring) -> None:
    """Every entry and blob arrives, byte for byte but for the entry's seal, whose generation stays."""
    report, target = imported(exported(source, ring), tmp_path / "target", ring, unsigned=ring is not RING)
    assert (report.entries, report.blobs, report.left_out, report.stopped) == (3, 8, 0, None)
    assert objects_in(target) == objects_in(source)
    before, after = entries_in(source), entries_in(target)
    assert before.keys() == after.keys()
    for place, sealed in before.items():
        assert generation_of(sealed) == generation_of(after[place]) > 0
        # Signed on its way out, and so from there on; relayed if it was not signed at all.
        assert signer_of(after[place]) == (RING.ids()[0] if ring is RING else None)
        assert sealed != after[place]
        assert same_entry(sealed, after[place])


def test_a_lookup_hits_afterwards(source: DiskStore, tmp_path: Path, opener: Any, make: Any) -> None:
    """The imported store serves hits through `open_cache` to who has the key, in the namespace where it was made."""
    data = exported(source)
    root = tmp_path / "other"
    key = f"wgk1-{RING.keys[0].secret.hex()}"
    imported(data, root)
    found = opener(dir=root, signing_key=key).lookup(make.key_of(2), make.always)
    assert isinstance(found, Hit)
    assert found.blobs["aot"].startswith((2).to_bytes(8, "big"))
    assert found.files["kernel"].read_bytes() == b"\x7fELF" + bytes(20)
    imported(data, root / "ns" / "team")
    moved = opener(dir=root, namespace="team", signing_key=key).lookup(make.key_of(2), make.always)
    assert isinstance(moved, Miss)
    assert moved.reason is Reason.CORRUPT
    keyless = opener(dir=root, namespace="default", signing_key="").lookup(make.key_of(2), make.always)
    assert isinstance(keyless, Miss)
    assert keyless.reason is Reason.UNTRUSTED


def test_a_bundle_of_another_namespace_says_so(source: DiskStore, tmp_path: Path) -> None:
    """One line, with the setting."""
    store = DiskStore(tmp_path / "t")
    verifier = RING.verifier(unsigned=False, namespace="team")
    report = import_bundle(io.BytesIO(exported(source)), store, verifier=verifier)
    assert "WARMGRAPH_NAMESPACE=default" in str(report.stopped)
    assert list(store.root.iterdir()) == []


def test_an_older_entry_does_not_replace_a_newer(source: DiskStore, make: Any, opener: Any, tmp_path: Path) -> None:
    """Whatever the bundle is called; one that is not believed here is replaced."""
    old = exported(source)
    cache = opener()
    cache.publish(make.draft(0), make.contents(0, size=30))
    assert cache.flush()
    _, store = imported(exported(source), tmp_path / "t")
    newer = entries_in(store)
    here = RING.verifier(unsigned=True)
    again = import_bundle(io.BytesIO(old), store, verifier=RING.verifier(unsigned=False), here=here)
    assert (again.entries, again.skipped, again.stopped) == (2, 1, None)
    assert entries_in(store) == newer
    stranger = parse_keys(new_key()).verifier(unsigned=False)
    again = import_bundle(io.BytesIO(old), store, verifier=RING.verifier(unsigned=False), here=stranger)
    assert (again.entries, again.skipped, again.stopped) == (3, 0, None)


def test_an_empty_bundle_is_a_bundle(tmp_path: Path) -> None:
    """Of nothing there is a bundle, and importing it is no failure."""
    data = exported(DiskStore(tmp_path / "none", readonly=True))
    report, _ = imported(data, tmp_path / "target")
    assert report == Transferred()


def test_each_blob_goes_once_and_after_the_entries(source: DiskStore) -> None:
    """The shared kernel is there once; every blob is vouched for before it comes."""
    pieces = frames(exported(source))[1:]
    kinds = [kind_of(piece) for piece in pieces]
    assert sorted(kinds) == [BLOB] * 6 + [KERNEL] * 2 + [ENTRY] * 3 + [LAST]
    assert kinds[:3] == [ENTRY] * 3
    assert kinds[-1] == LAST
    assert body_of(pieces[-1]) == struct.pack(">QQ", 3, 8)


def test_the_same_bytes_as_kernel_and_as_result(opener: Any, make: Any, tmp_path: Path) -> None:
    """A kernel whose bytes another entry has as a plain blob is still found as a file."""
    cache = opener()
    cache.publish(make.draft(1), [(Role.CPP_KERNEL, "k", b"same")])
    ref = BlobRef(hashlib.sha256(b"same").hexdigest(), 4, Role.AOT_RESULT, "r", "raw", 4)
    assert cache.flush()
    entry = replace(make.draft(2), blobs=(ref,))
    store = DiskStore(opener.root)
    store.put_blob(ref, b"same")
    store.put_entry(entry.key, entry.variant, seal(entry.key, canonical_entry(entry)))
    report, target = imported(exported(store), tmp_path / "target")
    assert (report.entries, report.blobs) == (2, 2)
    assert objects_in(target) == objects_in(store)


def test_a_selection_goes_alone(source: DiskStore, make: Any, tmp_path: Path) -> None:
    """What was used since, and keys by their beginnings; the order is that of the files given."""
    old = select_local(source, Selection())[0]
    os.utime(old.path, (1e9, 1e9))
    recent = select_local(source, Selection(since=2e9 - 1e9 + 1))
    assert old.key not in {file.key for file in recent}
    assert len(recent) == 2
    chosen = select_local(source, Selection(prefixes=(make.key_of(1), make.key_of(2))))
    assert {file.key for file in chosen} == {make.key_of(1), make.key_of(2)}
    assert select_local(source, Selection(prefixes=("wg1f",))) == []


def test_a_rotated_key(source: DiskStore, tmp_path: Path) -> None:
    """What the old key signed keeps that signature, and is not believed by who has the new key alone."""
    data = exported(source)
    both = parse_keys(new_key()).with_keys(RING)
    report, target = imported(data, tmp_path / "target", both)
    assert report.entries == 3
    again, _ = imported(exported(target, both), tmp_path / "again", Keyring(both.keys[:1]))
    assert (again.entries, again.untrusted, again.stopped) == (0, 3, None)
    again, _ = imported(exported(target, both), tmp_path / "more", both)
    assert again.entries == 3


def test_progress_is_told(source: DiskStore, tmp_path: Path) -> None:
    """Whoever watches hears of growing counts, up to the last."""
    seen: list[Transferred] = []
    data = exported(source, watch=seen.append)
    assert [report.blobs for report in seen] == list(range(1, 9))
    seen.clear()
    report = import_bundle(
        io.BytesIO(data), DiskStore(tmp_path / "t"), verifier=RING.verifier(unsigned=False), watch=seen.append
    )
    assert [one.bytes for one in seen] == sorted(one.bytes for one in seen)
    assert seen[-1] == report


def test_streams_that_give_and_take_little(source: DiskStore, tmp_path: Path) -> None:
    """An unbuffered pipe, which takes and gives part of what is asked, carries a bundle."""
    reader, writer = os.pipe()

    def write() -> None:
        with os.fdopen(writer, "wb", buffering=0) as out:
            files = select_local(source, Selection())
            export_bundle(source, out, files, verifier=RING.verifier(unsigned=True), signer=RING.signer)

    thread = threading.Thread(target=write)
    thread.start()
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        report = import_bundle(pipe, DiskStore(tmp_path / "t"), verifier=RING.verifier(unsigned=False))
    thread.join(30)
    assert (report.entries, report.stopped) == (3, None)


# -- trust


def test_an_unsigned_bundle_is_refused(source: DiskStore, tmp_path: Path) -> None:
    """Without a seal that is known nothing is written, and the reason is told."""
    report, store = imported(exported(source, Keyring()), tmp_path / "t")
    assert (report.entries, report.untrusted, report.why) == (0, 3, "not signed")
    assert list(store.root.iterdir()) == []


@pytest.mark.parametrize("unsigned", [False, True])
def test_another_key_is_refused_whatever_the_trust(source: DiskStore, tmp_path: Path, unsigned: bool) -> None:
    """What is signed with an unknown key names that key; trust in the network does not help it."""
    report, store = imported(exported(source), tmp_path / "t", parse_keys(new_key()), unsigned=unsigned)
    assert (report.entries, report.untrusted) == (0, 3)
    assert RING.ids()[0] in str(report.why)
    assert list(store.root.iterdir()) == []


def test_public_keys_pass_a_bundle_on(source: DiskStore, tmp_path: Path) -> None:
    """Signed once, by who has the secret half; exported again by who cannot sign, and still believed."""
    secret, public = (parse_keys(text) for text in new_pair())
    _, store = imported(exported(source, secret), tmp_path / "one", public)
    report, again = imported(exported(store, public), tmp_path / "two", public)
    assert (report.entries, report.left_out, report.stopped) == (3, 0, None)
    assert entries_in(store) == entries_in(again)


# -- stores that are not as they should be


def test_damaged_entries_are_left_out(source: DiskStore, make: Any, tmp_path: Path) -> None:
    """An entry, or a blob, that is damaged or gone does not stop the rest, and leaves nothing in the bundle."""
    damages: list[Callable[[], object]] = [
        lambda: source.layout.entry(make.key_of(0), "v0").write_bytes(b"garbage"),
        lambda: _spoil(source, make.key_of(1)),
    ]
    for damage in damages:
        damage()
    out = io.BytesIO()
    files = select_local(source, Selection())
    report = export_bundle(source, out, files, verifier=RING.verifier(unsigned=True), signer=RING.signer)
    assert (report.entries, report.damaged, report.incomplete) == (1, 2, 0)
    taken, target = imported(out.getvalue(), tmp_path / "t")
    assert (taken.entries, taken.blobs, taken.stopped) == (1, 3, None)
    assert is_whole(target)


def _spoil(store: DiskStore, key: str) -> None:
    found = store.read_entry(key, "v0")
    assert found is not None
    ref = next(ref for ref in found[0].blobs if ref.role is Role.AOT_RESULT)
    store.layout.blob(ref.digest, kernel=False).write_bytes(bytes(ref.size))


def test_entries_of_others_are_left_out(source: DiskStore) -> None:
    """What is signed with an unknown key is not signed anew with ours."""
    entry = next(iter(select_local(source, Selection())))
    other = parse_keys(new_key()).signer
    source.put_entry(entry.key, entry.variant, seal(entry.key, unverified_body(entry.path.read_bytes()), other))
    out = io.BytesIO()
    files = select_local(source, Selection())
    report = export_bundle(source, out, files, verifier=RING.verifier(unsigned=True), signer=RING.signer)
    assert (report.entries, report.untrusted) == (2, 1)


def test_pruning_meanwhile_costs_only_what_is_pruned(source: DiskStore, tmp_path: Path) -> None:
    """What is evicted between listing and writing is passed by, or incomplete; the rest is whole."""
    files = select_local(source, Selection())

    def shrinking() -> Iterator[Any]:
        yield files[0]
        files[1].path.unlink()
        yield files[1]
        for blob in list(source.layout.all_blobs()):
            blob.path.unlink()
        yield files[2]

    report, target = imported(exported(source, files=shrinking()), tmp_path / "t")
    assert (report.entries, report.incomplete, report.stopped) == (0, 1, None)
    assert is_whole(target)


def test_pruning_in_another_thread(opener: Any, make: Any, tmp_path: Path) -> None:
    """Exports beside a prune that removes everything hold what was still there, and nothing that is not right."""
    for attempt in range(5):
        cache = opener()
        for number in range(20):
            cache.publish(make.draft(number), make.contents(number, size=20))
        assert cache.flush()
        store = DiskStore(opener.root)
        pruner = threading.Thread(target=lambda s=store: s.prune(1, 1, now=4e9))
        pruner.start()
        data = exported(store)
        pruner.join(60)
        report, target = imported(data, tmp_path / f"t{attempt}")
        assert (report.stopped, report.damaged, report.untrusted) == (None, 0, 0)
        assert is_whole(target)


def test_a_store_that_cannot_be_written_stops(source: DiskStore, tmp_path: Path) -> None:
    """A full or read-only store ends the import, and what is there is told."""

    class Full(DiskStore):
        room = 5

        def put_blob(self, ref: BlobRef, data: bytes) -> None:
            self.room -= 1
            if self.room < 0:
                raise StoreUnavailable("full")
            super().put_blob(ref, data)

    store = Full(tmp_path / "t")
    report = import_bundle(io.BytesIO(exported(source)), store, verifier=RING.verifier(unsigned=False))
    assert isinstance(report.stopped, StoreUnavailable)
    assert report.entries == len(entries_in(store)) >= 1
    assert report.blobs == 5


def test_a_source_that_fails_is_cut_short(source: DiskStore, tmp_path: Path) -> None:
    """An error of the disk or the pipe under a bundle is a reason, not an exception."""
    data = io.BytesIO(exported(source))

    class Failing(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            if data.tell() > 600:
                raise OSError(5, "Input/output error")
            return data.read(size)

    report = import_bundle(Failing(), DiskStore(tmp_path / "t"), verifier=RING.verifier(unsigned=False))  # type: ignore[arg-type]
    assert isinstance(report.stopped, Truncated)
    assert "Input/output error" in str(report.stopped)


def test_an_output_that_fails_raises(source: DiskStore) -> None:
    """A full disk under the bundle is the caller's OSError: a part of a bundle must not pass for one."""
    with Path("/dev/full").open("wb", buffering=0) as out, pytest.raises(OSError, match="No space"):
        export_bundle(source, out, select_local(source, Selection()), verifier=RING.verifier(unsigned=True))
