"""Damaged bytes: whatever happens to a stored file, a lookup is a miss (or an honest hit), never an exception."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from warmgraph.cache import DiskStore, Hit, Miss, Reason

FILES = {
    "entry": lambda root: next(root.glob("entries/*/*/v0")),
    "kernel": lambda root: next(root.glob("objects/*/*.so")),
    "blob": lambda root: max(
        (path for path in root.glob("objects/*/*") if not path.suffix), key=lambda path: path.stat().st_size
    ),
}


def flip(data: bytes, random: random.Random) -> bytes:
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]


def truncate(data: bytes, random: random.Random) -> bytes:
    return data[: random.randrange(len(data))]


def append(data: bytes, random: random.Random) -> bytes:
    return data + random.randbytes(random.randrange(1, 50))


def overwrite(data: bytes, random: random.Random) -> bytes:
    at = random.randrange(len(data))
    other = bytes(byte ^ 0xFF for byte in data[at : at + 64])
    return data[:at] + other + data[at + 64 :]


DAMAGES: list[Callable[[bytes, random.Random], bytes]] = [flip, truncate, append, overwrite]


@pytest.mark.parametrize("which", FILES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_file_is_a_miss_and_is_set_aside(
    published: Any, make: SimpleNamespace, which: str, damage: Callable[[bytes, random.Random], bytes]
) -> None:
    """Forty random places in each kind of file: CORRUPT, then ABSENT, then hit again after a new publish."""
    seeded = random.Random(f"{which} {damage.__name__}")
    pristine = published.root.with_name("pristine")
    shutil.copytree(published.root, pristine)
    for _ in range(40):
        path = FILES[which](published.root)
        path.write_bytes(damage(path.read_bytes(), seeded))
        cache = published()
        miss = cache.lookup(make.key_of(1), make.always)
        assert isinstance(miss, Miss)
        assert (miss.reason, miss.seen) == (Reason.CORRUPT, 1)
        assert cache.lookup(make.key_of(1), make.always) == Miss(Reason.ABSENT, 0, None)
        assert not list(published.root.glob("entries/*/*/v0"))
        assert len(list(published.root.glob("quarantine/*.why"))) == 1
        shutil.rmtree(published.root)
        shutil.copytree(pristine, published.root)
    assert isinstance(published().lookup(make.key_of(1), make.always), Hit)


def test_damaged_blob_is_replaced_by_the_next_publish(published: Any, make: SimpleNamespace) -> None:
    """Publishing the same bytes again heals every bad blob, also those that are there with the right size."""
    cache = published()
    blobs = make.contents(3)
    cache.publish(make.draft(3), blobs)
    assert cache.flush()
    for path in published.root.glob("objects/*/*"):
        data = path.read_bytes()
        path.write_bytes(bytes(len(data)))  # of the right size, so that only the digest can tell
    healing = published()
    assert isinstance(healing.lookup(make.key_of(3), make.always), Miss)
    healing.publish(make.draft(3), blobs)
    assert healing.flush()
    assert isinstance(published().lookup(make.key_of(3), make.always), Hit)


def test_entry_moved_under_another_key_is_corrupt(published: Any, make: SimpleNamespace) -> None:
    """A true entry copied under another key is refused there and kept where it belongs."""
    source = next(published.root.glob("entries/*/*/v0"))
    target = published.root / "entries" / make.key_of(2)[3:5] / make.key_of(2) / "v0"
    target.parent.mkdir(parents=True)
    shutil.copy(source, target)
    miss = published().lookup(make.key_of(2), make.always)
    assert isinstance(miss, Miss)
    assert miss.reason is Reason.CORRUPT
    assert not target.exists()
    assert isinstance(published().lookup(make.key_of(1), make.always), Hit)


def test_entry_moved_under_another_variant_is_corrupt(published: Any, make: SimpleNamespace) -> None:
    """A true entry copied under another variant of its key is refused there."""
    source = next(published.root.glob("entries/*/*/v0"))
    shutil.copy(source, source.with_name("v1"))
    source.unlink()
    miss = published().lookup(make.key_of(1), make.always)
    assert isinstance(miss, Miss)
    assert miss.reason is Reason.CORRUPT


def test_foreign_files_are_overlooked(published: Any, make: SimpleNamespace) -> None:
    """Files, folders and links that are not ours, wherever they lie, change no lookup and no tool."""
    root: Path = published.root
    entry_folder = next(root.glob("entries/*/*"))
    for name in (".tmp-host-1-0123456789abcdef", ".DS_Store", "v1.bak", "V1", ".nfs0001", "a b"):
        (entry_folder / name).write_bytes(b"foreign")
    (entry_folder / "folder").mkdir()
    (entry_folder / "link").symlink_to(root / "nowhere")
    (root / "objects" / "zz").mkdir()
    (root / "objects" / "ab").mkdir(exist_ok=True)
    (root / "objects" / "ab" / "readme").write_text("foreign")
    (root / "entries" / "00" / "wg1-not-a-key").mkdir()
    (root / "entries" / "file").write_text("foreign")
    cache = published()
    hit = cache.lookup(make.key_of(1), make.always)
    assert isinstance(hit, Hit)
    assert isinstance(cache.lookup(make.key_of(2), make.always), Miss)
    store = DiskStore(root)
    assert [file.variant for file in store.scan()] == ["v0"]
    assert store.usage().files == 4
    assert store.verify(fix=True).ok
    assert store.prune(10**9, 10**6).entries == 0
    assert (entry_folder / "v1.bak").exists()


def test_huge_entry_file_is_not_read_whole(published: Any, make: SimpleNamespace) -> None:
    """An entry file of many gigabytes (sparse) is refused without reading it all."""
    path = next(published.root.glob("entries/*/*/v0"))
    with path.open("r+b") as file:
        file.truncate(2**36)
    miss = published().lookup(make.key_of(1), make.always)
    assert isinstance(miss, Miss)
    assert miss.reason is Reason.CORRUPT


def test_folder_that_vanishes_is_made_again(published: Any, make: SimpleNamespace) -> None:
    """When someone removes the whole folder, lookups miss and the next publish makes it again."""
    cache = published()
    shutil.rmtree(published.root)
    assert isinstance(cache.lookup(make.key_of(1), make.always), Miss)
    cache.publish(make.draft(1), make.contents(1))
    assert cache.flush()
    assert cache.health() == {}
    assert isinstance(published().lookup(make.key_of(1), make.always), Hit)
    assert published.root.stat().st_mode & 0o777 == 0o700
