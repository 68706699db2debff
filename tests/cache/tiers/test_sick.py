"""Folders that cannot be used, in part or at all: one warning, misses or hits as fit, never an exception."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from warmgraph.cache import Cache, DiskStore, Hit, MemoryStore, Miss, Mode, Reason, Settings, StoreUnavailable

Warnings = Callable[[], list[str]]


def uses_memory_alone(cache: Cache, make: SimpleNamespace) -> bool:
    """Whether a result lives in this process and nowhere else."""
    cache.publish(make.draft(1), make.contents(1))
    found = cache.lookup(make.key_of(1), make.always)
    return cache.flush() and isinstance(found, Hit) and found.tier == "memory"


def test_folder_that_others_can_write(opener: Any, make: SimpleNamespace, warnings_of: Warnings) -> None:
    """A folder writable by group or others is not used: whoever writes there could run code as us."""
    for mode in (0o777, 0o770, 0o702):
        opener.root.mkdir(exist_ok=True)
        opener.root.chmod(mode)
        assert uses_memory_alone(opener(), make)
        assert list(opener.root.iterdir()) == []
    assert len(warnings_of()) == 1, "one warning per process"
    assert f"chmod 700 {opener.root}" in warnings_of()[0]
    assert "chmod 700" in opener().health()["disk"]


def test_a_full_disk_is_made_room_on(opener: Any, make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a write fails since the disk is full, what was not used for long is evicted all the same."""
    looked: list[int] = []

    def full(self: DiskStore, *_: Any) -> None:
        raise StoreUnavailable("No space left on device")

    monkeypatch.setattr(DiskStore, "put_blob", full)
    monkeypatch.setattr(DiskStore, "keep_within", lambda self, *bounds: looked.append(1))
    cache = opener()
    cache.publish(make.draft(1), make.contents(1))
    assert cache.flush()
    assert looked == [1]


def test_folder_that_others_can_read_is_used(published: Any, make: SimpleNamespace, warnings_of: Warnings) -> None:
    """A folder that others can only read is fine."""
    published.root.chmod(0o755)
    assert isinstance(published().lookup(make.key_of(1), make.always), Hit)
    assert warnings_of() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a folder away needs root")
def test_folder_of_somebody_else(published: Any, make: SimpleNamespace, warnings_of: Warnings) -> None:
    """A folder that belongs to another user is not used, not even read."""
    os.chown(published.root, 12345, 12345)
    cache = published()
    assert isinstance(cache.lookup(make.key_of(1), make.always), Miss)
    assert uses_memory_alone(cache, make)
    assert len(warnings_of()) == 1
    assert "belongs to user 12345" in warnings_of()[0]


def test_namespace_below_an_unsafe_folder(opener: Any, make: SimpleNamespace, warnings_of: Warnings) -> None:
    """A private namespace folder below one that others can write is not used: it could be swapped."""
    (opener.root / "ns").mkdir(parents=True)
    opener.root.chmod(0o777)
    (opener.root / "ns" / "mine").mkdir(mode=0o700)
    assert uses_memory_alone(opener(namespace="mine"), make)
    assert len(warnings_of()) == 1


def test_folder_below_a_file(opener: Any, make: SimpleNamespace, warnings_of: Warnings, tmp_path: Path) -> None:
    """A folder that cannot exist leaves the cache with memory alone (settings refuse it earlier)."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="set WARMGRAPH_DIR"):
        DiskStore(tmp_path / "file" / "store")
    with pytest.raises(StoreUnavailable, match="is not a folder"):
        DiskStore(tmp_path / "file")


def test_strict_raises(opener: Any) -> None:
    """With strict an unusable folder is an error."""
    opener.root.mkdir()
    opener.root.chmod(0o777)
    with pytest.raises(StoreUnavailable, match="chmod 700"):
        opener(strict=True)


def test_read_only_file_system(
    published: Any, make: SimpleNamespace, mounted: Callable[[str], Path], warnings_of: Warnings
) -> None:
    """From a read-only file system results are read; that none are added is said once."""
    folder = mounted("size=10m,mode=700")
    shutil.copytree(published.root, folder, dirs_exist_ok=True)
    os.utime(next(folder.glob("entries/*/*/v0")), (0, 0))  # long unused: a hit would like to renew it
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    errors: list[StoreUnavailable | None] = []
    cache = published(dir=folder, on_published=lambda entry, seconds, error: errors.append(error))
    found = cache.lookup(make.key_of(1), make.always)
    assert isinstance(found, Hit)
    assert found.tier == "disk"
    assert warnings_of() == []
    for number in (2, 3):
        cache.publish(make.draft(number), make.contents(number))
    assert cache.flush()
    assert len(errors) == 2
    assert all("read-only" in str(error) for error in errors)
    assert len(warnings_of()) == 1
    cache.quarantine(make.key_of(1), "v0", "does not load")
    assert isinstance(cache.lookup(make.key_of(1), make.always), Miss)


def test_folder_without_write_permission(published: Any, make: SimpleNamespace, warnings_of: Warnings) -> None:
    """A folder that its owner may not write serves hits all the same."""
    folders = [published.root, *(path for path in published.root.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o500)
    try:
        if os.access(published.root, os.W_OK):
            pytest.skip("permissions do not bind root")
        cache = published()
        assert isinstance(cache.lookup(make.key_of(1), make.always), Hit)
        cache.publish(make.draft(2), make.contents(2))
        assert cache.flush()
        assert len(warnings_of()) == 1
    finally:
        for folder in folders:
            folder.chmod(0o700)


def test_full_disk(opener: Any, make: SimpleNamespace, mounted: Callable[[str], Path], warnings_of: Warnings) -> None:
    """On a full disk results stay in memory, nothing torn or temporary remains, and what was written is hit."""
    folder = mounted("size=1m,mode=700")
    errors: list[StoreUnavailable | None] = []
    cache = opener(dir=folder, on_published=lambda entry, seconds, error: errors.append(error))
    for number in range(8):
        cache.publish(make.draft(number), make.contents(number, size=200_000))
    assert cache.flush()
    assert errors[0] is None
    assert all(error is not None and "the disk is full" in str(error) for error in errors[-4:])
    assert len(warnings_of()) == 1
    assert not list(folder.rglob(".tmp-*"))
    for number in range(8):
        assert isinstance(cache.lookup(make.key_of(number), make.always), Hit)
    other = opener(dir=folder, mode="readonly")
    hits = [isinstance(other.lookup(make.key_of(number), make.always), Hit) for number in range(8)]
    assert hits == [error is None for error in errors]


class Failing(MemoryStore):
    """A store that can be told to be unavailable."""

    def __init__(self) -> None:
        super().__init__(name="failing")
        self.sick = True
        self.asked = 0

    def _check(self) -> None:
        self.asked += 1
        if self.sick:
            raise StoreUnavailable("it is down; wait")

    def entries(self, key: str) -> Any:
        self._check()
        yield from super().entries(key)

    def put_entry(self, key: str, variant: str, sealed: bytes) -> None:
        self._check()
        super().put_entry(key, variant, sealed)


def test_sick_tier_is_left_alone(make: SimpleNamespace, warnings_of: Warnings) -> None:
    """A tier that fails is asked once, remembered with its message, and does not hide the tiers below it."""
    sick, below = Failing(), MemoryStore(name="below")
    Cache(below).publish(make.draft(1), make.contents(1))
    cache = Cache(MemoryStore(max_bytes=0), [sick, below])
    for _ in range(5):
        found = cache.lookup(make.key_of(1), make.always)
        assert isinstance(found, Hit)
        assert found.tier == "below"
    miss = cache.lookup(make.key_of(2), make.always)
    assert isinstance(miss, Miss)
    assert (miss.reason, miss.detail) == (Reason.UNREADABLE, "it is down; wait")
    assert cache.health() == {"failing": "it is down; wait"}  # for reading, and for filling it
    assert sick.asked == 2
    assert len(warnings_of()) == 2


def test_sick_tier_is_tried_again(make: SimpleNamespace) -> None:
    """After a while a sick tier is tried again, and is well when that works."""
    from warmgraph.cache.stores.circuit_breaker import Health

    now = 0.0
    store = Failing()
    cache = Cache(MemoryStore(max_bytes=0), [store], health=Health(clock=lambda: now))
    cache.lookup(make.key_of(1), make.always)
    store.sick = False
    cache.lookup(make.key_of(1), make.always)
    assert cache.health() != {}
    assert store.asked == 1
    now = 61.0
    assert cache.lookup(make.key_of(1), make.always) == Miss(Reason.ABSENT, 0, None)
    assert cache.health() == {}
    assert store.asked == 2


def test_strict_raises_what_a_tier_raised(make: SimpleNamespace) -> None:
    """With strict a lookup raises what a store raised, and a flush what a write in the background raised."""
    cache = Cache(MemoryStore(), [Failing()], strict=True)
    with pytest.raises(StoreUnavailable, match="it is down"):
        cache.lookup(make.key_of(1), make.always)
    cache.publish(make.draft(1), make.contents(1))
    with pytest.raises(StoreUnavailable, match="it is down"):
        cache.flush()
    assert cache.flush()


def test_no_room_for_a_kernel_is_a_miss(make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where not even a temporary file can be made, a hit that needs one is a miss that says so."""
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    cache = Cache(MemoryStore())
    cache.publish(make.draft(1), make.contents(1))
    miss = cache.lookup(make.key_of(1), make.always)
    assert isinstance(miss, Miss)
    assert miss.reason is Reason.UNREADABLE


def test_unopened_store_creates_nothing(tmp_path: Path) -> None:
    """A read-only store on a missing folder is empty, and refuses to write in one line."""
    store = DiskStore(tmp_path / "store", readonly=True)
    assert list(store.scan()) == []
    assert store.usage().files == 0
    assert store.verify().ok
    for attempt in (store.sweep, lambda: store.prune(1, 1), lambda: store.verify(fix=True)):
        with pytest.raises(StoreUnavailable, match="opened read-only"):
            attempt()
    assert not (tmp_path / "store").exists()


def test_settings_are_what_a_cache_is_made_of(tmp_path: Path) -> None:
    """Settings made by hand, without the environment, open a cache too."""
    from warmgraph.cache import open_cache

    settings = Settings(tmp_path / "store", None, "default", Mode.READWRITE, False, 10**9, 1000)
    assert open_cache(settings).health() == {}
