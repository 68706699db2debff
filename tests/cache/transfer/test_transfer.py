"""Copying between stores: what is verified on the way, what is passed by, what stops it. The real server at the end."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from warmgraph.cache import (
    BlobRef,
    DiskStore,
    Hit,
    Keyring,
    MemoryStore,
    RedisStore,
    Role,
    Selection,
    Store,
    StoreUnavailable,
    Transferred,
    canonical_entry,
    copy_entries,
    new_key,
    open_remote,
    parse_keys,
    parse_url,
    read_local,
    seal,
    select_local,
    select_remote,
    unseal,
)
from warmgraph.cache.format.seal import generation_of, unverified_body

_SERVERS = Path(__file__).parents[2] / "remote" / "servers.py"
_SPEC = importlib.util.spec_from_file_location("warmgraph_tests_transfer_servers", _SERVERS)
assert _SPEC is not None
assert _SPEC.loader is not None
servers = importlib.util.module_from_spec(_SPEC)


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    import sys

    assert _SPEC is not None
    assert _SPEC.loader is not None
    sys.modules[_SPEC.name] = servers  # its dataclasses look there for their module
    _SPEC.loader.exec_module(servers)


RING = parse_keys(new_key())
KEY_TEXT = f"wgk1-{RING.keys[0].secret.hex()}"


@pytest.fixture
def local(opener: Any, make: Any) -> DiskStore:
    """A folder of three unsigned entries."""
    cache = opener()
    for number in range(3):
        cache.publish(make.draft(number), make.contents(number))
    assert cache.flush()
    return DiskStore(opener.root)


def push(local: DiskStore, target: Store, ring: Keyring = RING, **options: Any) -> Transferred:
    return copy_entries(
        local,
        target,
        options.pop("listed", None) or read_local(select_local(local, Selection())),
        source_verifier=ring.verifier(unsigned=True),
        target_verifier=ring.verifier(unsigned=False),
        signer=ring.signer,
        **options,
    )


def pull(remote: Any, target: Store, selection: Selection = Selection(), ring: Keyring = RING) -> Transferred:  # noqa: B008
    return copy_entries(
        remote,
        target,
        select_remote(remote, selection),
        source_verifier=ring.verifier(unsigned=False),
        target_verifier=ring.verifier(unsigned=True),
    )


def spoil(store: DiskStore, key: str, *, remove: bool = False) -> None:
    """Change, or remove, a blob of an entry."""
    found = DiskStore(store.root, verifier=RING.verifier(unsigned=True)).read_entry(key, "v0")
    assert found is not None
    ref = next(ref for ref in found[0].blobs if ref.role is Role.AOT_RESULT)
    path = store.layout.blob(ref.digest, kernel=False)
    if remove:
        path.unlink()
    else:
        path.write_bytes(bytes(ref.size))


# -- between any two stores


def test_what_was_made_here_is_signed(local: DiskStore, make: Any) -> None:
    """With a signer every entry that had a checksum bears its seal in the target, of the same moment and bytes."""
    target = MemoryStore()
    report = push(local, target)
    assert (report.entries, report.blobs, report.left_out, report.stopped) == (3, 9, 0, None)
    for file in local.scan():
        ((variant, sealed),) = target.entries(file.key)
        body = unseal(file.key, sealed, RING.verifier(unsigned=False))
        assert (variant, body) == (file.variant, unverified_body(file.path.read_bytes()))
        assert generation_of(sealed) == generation_of(file.path.read_bytes())


def test_what_is_signed_keeps_its_signature(local: DiskStore, tmp_path: Path) -> None:
    """Copied by a host that signs with another key, and believes the first one too."""
    first = MemoryStore()
    push(local, first)
    newer = parse_keys(new_key()).with_keys(RING)
    listed = [(file.key, *first_of(first.entries(file.key))) for file in local.scan()]
    second = MemoryStore()
    assert push(first, second, newer, listed=listed).entries == 3  # type: ignore[arg-type]
    for file in local.scan():
        assert list(second.entries(file.key)) == list(first.entries(file.key))


def first_of(entries: Any) -> tuple[str, bytes]:
    return next(iter(entries))


def test_without_a_signer_bytes_stay(local: DiskStore, tmp_path: Path) -> None:
    """Without a signer the target holds the source's bytes."""
    target = DiskStore(tmp_path / "t")
    verifier = Keyring().verifier(unsigned=True)
    listed = read_local(select_local(local, Selection()))
    report = copy_entries(local, target, listed, source_verifier=verifier, target_verifier=verifier)
    assert report.entries == 3
    there = {file.key: file.path.read_bytes() for file in target.scan()}
    assert there == {file.key: file.path.read_bytes() for file in local.scan()}
    assert report.bytes == target.usage().bytes


def test_what_is_there_is_passed_by(local: DiskStore) -> None:
    """A second copy writes nothing."""
    target = MemoryStore()
    push(local, target)
    assert push(local, target) == Transferred(skipped=3)


def test_what_is_there_in_part_is_copied(local: DiskStore, make: Any, tmp_path: Path) -> None:
    """An entry whose blob is gone at the target, or whose seal is not believed there, is copied again."""
    target = DiskStore(tmp_path / "t")
    push(local, target)
    spoil(target, make.key_of(0), remove=True)
    for number, ring in ((1, parse_keys(new_key())), (2, Keyring())):
        path = target.layout.entry(make.key_of(number), "v0")
        path.write_bytes(seal(make.key_of(number), unverified_body(path.read_bytes()), ring.signer))
    report = push(local, target)
    assert (report.entries, report.skipped) == (3, 0)
    assert push(local, target) == Transferred(skipped=3)


def test_damage_does_not_stop_the_rest(local: DiskStore, make: Any) -> None:
    """Damaged, incomplete and untrusted entries are counted, and stay where they are."""
    cache_entries = {file.key: file for file in local.scan()}
    spoil(local, make.key_of(0))
    spoil(local, make.key_of(1), remove=True)
    path = cache_entries[make.key_of(2)].path
    for number, ring, key in ((3, parse_keys(new_key()), 3), (4, RING, 5)):  # another's key; moved
        entry = make.draft(number)
        local.put_entry(make.key_of(key), "v0", seal(entry.key, canonical_entry(entry), ring.signer))
    local.put_entry(make.key_of(2), "v9", path.read_bytes())  # another variant's place
    report = push(local, MemoryStore())
    assert (report.entries, report.damaged, report.incomplete, report.untrusted) == (1, 3, 1, 1)
    assert report.stopped is None
    assert len(list(local.scan())) == 6


def test_a_shared_blob_goes_once(local: DiskStore, opener: Any, make: Any) -> None:
    """What several entries name is read and written once."""
    cache = opener()
    for number in range(10, 14):
        cache.publish(make.draft(number), [(Role.CPP_KERNEL, "k", b"shared")])
    assert cache.flush()
    report = push(local, MemoryStore())
    assert (report.entries, report.blobs) == (7, 10)


def test_eviction_meanwhile_is_passed_by(local: DiskStore) -> None:
    """An entry that goes between listing and reading is not there, which is no damage."""
    files = select_local(local, Selection())
    files[1].path.unlink()
    report = push(local, MemoryStore(), listed=read_local(files))
    assert (report.entries, report.left_out) == (2, 0)


@pytest.mark.parametrize("method", ["entries", "has_blob", "put_blob", "put_entry"])
def test_a_target_that_fails_stops(local: DiskStore, method: str) -> None:
    """A store that cannot serve ends the copying, and what was done until then is told."""

    class Failing(MemoryStore):
        calls = 0

        def _count(self, name: str) -> None:
            self.calls += name == method
            if self.calls > (1 if method == "entries" else 0):
                raise StoreUnavailable(f"no more {name}")

        def entries(self, key: str) -> Iterator[tuple[str, bytes]]:
            self._count("entries")
            return super().entries(key)

        def has_blob(self, ref: BlobRef) -> bool:
            self._count("has_blob")
            return super().has_blob(ref)

        def put_blob(self, ref: BlobRef, data: bytes) -> None:
            self._count("put_blob")
            super().put_blob(ref, data)

        def put_entry(self, key: str, variant: str, sealed: bytes) -> None:
            self._count("put_entry")
            super().put_entry(key, variant, sealed)

    target = Failing()
    if method == "has_blob":
        push(local, target)
    report = push(local, target)
    assert isinstance(report.stopped, StoreUnavailable)
    assert report.entries == (1 if method == "entries" else 0)


# -- with a server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Any]:
    with servers.server(tmp_path / "redis") as one:
        yield one


def remote_of(server: Any) -> RedisStore:
    return RedisStore(parse_url(server.patient_url), namespace="default", ttl=3600.0)


def test_there_and_back_over_a_server(local: DiskStore, server: Any, make: Any, opener: Any, tmp_path: Path) -> None:
    """What one host pushes another pulls, and then hits without the server."""
    remote = remote_of(server)
    assert push(local, remote).entries == 3
    assert push(local, remote) == Transferred(skipped=3)
    other = DiskStore(tmp_path / "other")
    assert pull(remote, other).entries == 3
    assert pull(remote, other) == Transferred(skipped=3)
    server.stop()
    for number in range(3):
        found = opener(dir=other.root, signing_key=KEY_TEXT).lookup(make.key_of(number), make.always)
        assert isinstance(found, Hit)
        assert found.blobs["aot"].startswith(number.to_bytes(8, "big"))


def test_a_pushed_entry_is_hit_over_the_server(
    local: DiskStore, server: Any, make: Any, opener: Any, tmp_path: Path
) -> None:
    """A fresh host with the key hits on what was pushed."""
    push(local, remote_of(server))
    cache = opener(dir=tmp_path / "fresh", url=server.patient_url, signing_key=KEY_TEXT)
    found = cache.lookup(make.key_of(1), make.always)
    assert isinstance(found, Hit)
    assert found.tier == "redis"
    assert cache.flush()


def test_a_selection_of_a_server(local: DiskStore, server: Any, make: Any) -> None:
    """Keys by their beginnings, and what was published since."""
    remote = remote_of(server)
    push(local, remote)
    assert pull(remote, MemoryStore(), Selection(prefixes=(make.key_of(1),))).entries == 1
    assert pull(remote, MemoryStore(), Selection(since=time.time() - 60)).entries == 3
    assert pull(remote, MemoryStore(), Selection(since=time.time() + 60)) == Transferred()


def test_a_server_that_lies(local: DiskStore, server: Any, make: Any, tmp_path: Path) -> None:
    """Entries and pieces that were changed, moved, removed or sealed by others never reach the disk."""
    remote, raw = remote_of(server), server.raw
    push(local, remote)
    entries = [remote.names.entries(make.key_of(number)) for number in range(4)]
    raw.set(entries[3], raw.get(entries[2]))
    raw.set(entries[0], raw.get(entries[0]).replace(b"WGE3", b"WGE0"))
    strange = replace(make.draft(7))
    other = parse_keys(new_key()).signer
    remote.put_entry(strange.key, "v0", seal(strange.key, canonical_entry(strange), other, 5))
    (sealed,) = (one for _, one in remote.entries(make.key_of(1)))
    from warmgraph.cache import decode_entry

    entry = decode_entry(make.key_of(1), unverified_body(sealed))
    name = remote.names.pieces(entry.blobs[0].digest, 1)[0]
    raw.set(name, raw.get(name)[:-1] + b"!")
    target = DiskStore(tmp_path / "t")
    report = pull(remote, target)
    assert (report.entries, report.damaged, report.untrusted, report.stopped) == (1, 3, 1, None)
    raw.delete(name)
    assert pull(remote, target).incomplete == 1
    assert [file.key for file in target.scan()] == [make.key_of(2)]
    for file in target.layout.all_blobs():
        assert hashlib.sha256(file.path.read_bytes()).hexdigest() == file.name.removesuffix(".so")


def test_a_server_that_dies_in_the_middle(local: DiskStore, server: Any) -> None:
    """What was pushed before stays counted, and the reason names the server."""

    def listed() -> Iterator[tuple[str, str, bytes]]:
        for number, one in enumerate(read_local(select_local(local, Selection()))):
            if number == 1:
                server.stop()
            yield one

    report = push(local, remote_of(server), listed=listed())
    assert report.entries == 1
    assert isinstance(report.stopped, StoreUnavailable)
    assert str(server.port) in str(report.stopped)


def test_a_server_that_was_never_there(tmp_path: Path) -> None:
    """Nothing is done, and the reason is told, in a moment."""
    from warmgraph.cache import configure

    url = f"redis://127.0.0.1:{servers.free_port()}/0"
    remote = open_remote(configure(url=url, signing_key=KEY_TEXT))
    assert remote is not None
    start = time.monotonic()
    report = pull(remote, DiskStore(tmp_path / "t"))
    assert isinstance(report.stopped, StoreUnavailable)
    assert report == Transferred(stopped=report.stopped)
    assert time.monotonic() - start < 10


def test_a_large_blob_goes_both_ways(server: Any, opener: Any, make: Any, tmp_path: Path) -> None:
    """Pieces are the server's matter: 5 MB arrive as they were."""
    content = os.urandom(5 * 2**20)
    cache = opener()
    cache.publish(make.draft(1), [(Role.AOT_RESULT, "aot", content)])
    assert cache.flush()
    remote = remote_of(server)
    push(DiskStore(opener.root), remote)
    other = tmp_path / "other"
    assert pull(remote, DiskStore(other)).entries == 1
    found = opener(dir=other, signing_key=KEY_TEXT).lookup(make.key_of(1), make.always)
    assert isinstance(found, Hit)
    assert found.blobs["aot"] == content
