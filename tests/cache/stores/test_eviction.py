"""Eviction and sweeping: what goes, what stays, and what a race may cost."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from warmgraph.cache import DiskStore, Entry, Hit, Miss, Role, canonical_entry, encode_blob, seal

LATER = 3600.0


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


@pytest.fixture
def filled(opener: Any, make: SimpleNamespace) -> Any:
    """Ten entries, 0 the longest unused, all older than the grace."""
    cache = opener()
    for number in range(10):
        cache.publish(make.draft(number), make.contents(number, size=20_000))
    assert cache.flush()
    for path in opener.root.rglob("*"):
        if path.is_file():
            age(path, LATER)
    for number in range(10):
        age(next((opener.root / "entries").glob(f"*/{make.key_of(number)}/v0")), 10_000 - number * 100)
    return opener


def hits(opener: Any, make: SimpleNamespace, numbers: range) -> list[bool]:
    cache = opener(mode="readonly")
    return [isinstance(cache.lookup(make.key_of(number), make.always), Hit) for number in numbers]


def test_bytes_bound_keeps_what_was_used_last(filled: Any, make: SimpleNamespace) -> None:
    """Down to half the bytes the five longest unused entries go, with their blobs, and no other."""
    store = DiskStore(filled.root)
    before = store.usage()
    report = store.prune(before.bytes // 2, 10**6)
    assert (report.entries, report.blobs) == (5, 15)
    after = store.usage()
    assert after.bytes == report.bytes == before.bytes - report.bytes_freed <= before.bytes // 2
    assert after.files == report.files == 20
    assert hits(filled, make, range(10)) == [False] * 5 + [True] * 5


def test_file_bound_keeps_what_was_used_last(filled: Any, make: SimpleNamespace) -> None:
    """Down to 13 files three entries of four files stay, the ones used last."""
    store = DiskStore(filled.root)
    report = store.prune(10**12, 13)
    assert (report.entries, report.files) == (7, 12)
    assert store.usage().files == 12
    assert hits(filled, make, range(10)) == [False] * 7 + [True] * 3


def test_a_hit_saves_an_entry(filled: Any, make: SimpleNamespace) -> None:
    """An entry that was hit lately stays, though it was published first."""
    assert isinstance(filled().lookup(make.key_of(0), make.always), Hit)
    DiskStore(filled.root).prune(10**12, 13)
    assert hits(filled, make, range(10)) == [True] + [False] * 7 + [True] * 2


def test_within_bounds_nothing_goes(filled: Any, make: SimpleNamespace) -> None:
    """Within both bounds a prune removes no entry and no blob that one names."""
    report = DiskStore(filled.root).prune(10**12, 10**6)
    assert (report.entries, report.blobs, report.leftovers) == (0, 0, 0)
    assert all(hits(filled, make, range(10)))


def test_evicted_keys_leave_no_folder(filled: Any) -> None:
    """Inodes are what runs out: an evicted key's folder goes too."""
    DiskStore(filled.root).prune(0, 0)
    assert not list((filled.root / "entries").glob("*/*"))
    assert not list((filled.root / "objects").glob("*/*"))


def put(store: DiskStore, number: int, contents: list[bytes], variant: str = "v0") -> None:
    """Publish by hand: several entries may share a blob."""
    encoded = [encode_blob(Role.AOT_RESULT, f"b{index}", content) for index, content in enumerate(contents)]
    entry = Entry(f"wg1{number:064x}", variant, {}, None, {}, tuple(ref for ref, _ in encoded))
    for ref, data in encoded:
        store.put_blob(ref, data)
    store.put_entry(entry.key, variant, seal(entry.key, canonical_entry(entry)))


def test_shared_blob_goes_with_its_last_entry(tmp_path: Path) -> None:
    """A blob that two entries name stays with the one that stays."""
    store = DiskStore(tmp_path / "store")
    shared = os.urandom(10_000)
    for number in (1, 2):
        put(store, number, [shared, os.urandom(10_000)])
        age(next((store.root / "entries").glob(f"*/wg1{number:064x}/v0")), 10_000 - number)
    report = store.prune(25_000, 10**6, now=time.time() + LATER)
    assert (report.entries, report.blobs) == (1, 1)
    assert store.verify().findings == ()
    assert store.prune(0, 10**6, now=time.time() + LATER).blobs == 2


def test_blob_in_flight_stays(tmp_path: Path) -> None:
    """A blob without an entry may be a publish under way: it stays ten minutes, then goes."""
    store = DiskStore(tmp_path / "store")
    ref, data = encode_blob(Role.CPP_KERNEL, "k", b"kernel")
    store.put_blob(ref, data)
    report = store.prune(0, 0)
    assert (report.blobs, report.bytes_waiting) == (0, len(data))
    assert store.has_blob(ref)
    assert store.prune(0, 0, now=time.time() + 601).blobs == 1
    assert not store.has_blob(ref)


def test_blob_that_is_put_again_stays(tmp_path: Path) -> None:
    """Putting an old blob again starts its grace anew, since an entry for it is on its way."""
    store = DiskStore(tmp_path / "store")
    ref, data = encode_blob(Role.AOT_RESULT, "aot", b"content")
    store.put_blob(ref, data)
    path = store.path_of(ref)
    assert path is not None
    age(path, LATER)
    store.put_blob(ref, data)
    assert store.prune(0, 0).blobs == 0
    assert store.blob(ref) == data


def test_young_blobs_do_not_evict_twice(tmp_path: Path) -> None:
    """Blobs that wait out their grace do not count: a second prune does not evict more for them."""
    store = DiskStore(tmp_path / "store")
    for number in range(4):
        put(store, number, [os.urandom(10_000)])
    first = store.prune(25_000, 10**6)
    assert (first.entries, first.blobs) == (2, 0)
    assert first.bytes_waiting > 20_000
    second = store.prune(25_000, 10**6)
    assert (second.entries, second.blobs) == (0, 0)
    third = store.prune(25_000, 10**6, now=time.time() + LATER)
    assert (third.entries, third.blobs, third.bytes_waiting) == (0, 2, 0)


def test_entry_used_during_a_prune_stays(filled: Any, make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that is used after a prune listed it stays, and so do its blobs; another goes in its place."""
    from warmgraph.cache.stores.disk import eviction

    victim = next((filled.root / "entries").glob(f"*/{make.key_of(0)}/v0"))
    real = eviction._remove_unused

    def used_meanwhile(file: Any) -> bool:
        if file.path == victim:
            os.utime(victim)
        return real(file)

    monkeypatch.setattr(eviction, "_remove_unused", used_meanwhile)
    report = DiskStore(filled.root).prune(10**12, 36)
    assert report.entries == 1
    assert hits(filled, make, range(10)) == [True, False] + [True] * 8
    assert DiskStore(filled.root).verify().ok


def test_prune_beside_another_prune(filled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that another prune removes in the meantime are simply gone."""
    from warmgraph.cache.stores.disk import eviction

    store = DiskStore(filled.root)
    real = eviction.names_in
    calls: list[object] = []

    def racing(file: Any) -> frozenset[str]:
        if not calls:
            calls.append(file)
            store.prune(0, 0)
        return real(file)

    monkeypatch.setattr(eviction, "names_in", racing)
    store.prune(0, 0)
    assert store.usage().files == 0


def test_reader_whose_blob_goes_misses(filled: Any, make: SimpleNamespace) -> None:
    """A blob evicted between reading its entry and reading it makes a miss, and no error."""
    cache = filled()

    def evicting(entry: Entry) -> bool:
        DiskStore(filled.root).prune(0, 0)
        return True

    assert isinstance(cache.lookup(make.key_of(5), evicting), Miss)
    assert cache.health() == {}


def test_an_entry_that_cannot_be_checked_keeps_its_blobs(tmp_path: Path) -> None:
    """Eviction reads what an entry names even when its seal is of a kind this process cannot check."""
    store = DiskStore(tmp_path / "store")
    put(store, 1, [b"content"])
    path = next((store.root / "entries").glob("*/*/v0"))
    sealed = bytearray(path.read_bytes())
    sealed[4] = 2  # another algorithm
    path.write_bytes(bytes(sealed))
    assert store.prune(10**9, 10**6, now=time.time() + LATER).blobs == 0


def test_sweep_removes_only_what_is_old_and_ours(tmp_path: Path) -> None:
    """Temporary files go after an hour, quarantine after a week, journals after a month; foreign files never."""
    store = DiskStore(tmp_path / "store")
    root, key, now = store.root, f"wg1{'0' * 64}", time.time()
    young, old = (f"{key}.v0.{int((now - seconds) * 1e9)}" for seconds in (86_400, 8 * 86_400))
    ages = {
        f"entries/00/{key}/.tmp-host-1-{'0' * 16}": 4000,
        f"entries/00/{key}/.tmp-host-1-{'1' * 16}": 3000,
        f"objects/ab/.tmp-host-1-{'0' * 16}": 4000,
        f".tmp-host-1-{'0' * 16}": 4000,
        ".tmp-somebody-elses": 10**8,
        f"quarantine/{young}": 10**8,  # its age is in its name: the file kept the entry's own time
        f"quarantine/{old}": 0,
        f"quarantine/{old}.why": 0,
        "quarantine/notes.txt": 10**8,
        "journal/2020-01-01.host.jsonl": 31 * 86_400,
        "journal/2020-01-02.host.jsonl": 29 * 86_400,
        "journal/mine.jsonl": 10**8,
    }
    for name, seconds in ages.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        age(path, seconds)
    assert store.sweep() == 6
    left = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert left == {
        f"entries/00/{key}/.tmp-host-1-{'1' * 16}",
        ".tmp-somebody-elses",
        f"quarantine/{young}",
        "quarantine/notes.txt",
        "journal/2020-01-02.host.jsonl",
        "journal/mine.jsonl",
    }


def test_publishing_keeps_the_folder_within_its_bounds(opener: Any, make: SimpleNamespace) -> None:
    """A process that publishes far more than max_size evicts as it goes, and keeps what it published last."""
    cache = opener(max_size=500_000)
    for number in range(40):
        cache.publish(make.draft(number), make.contents(number, size=50_000))
        assert cache.flush()
        for path in (opener.root / "objects").rglob("*"):
            if path.is_file():
                age(path, LATER)  # out of the grace
    usage = DiskStore(opener.root).usage()
    assert usage.bytes < 600_000
    assert hits(opener, make, range(36, 40)) == [True] * 4
    assert hits(opener, make, range(4)) == [False] * 4


def test_publish_an_hour_later_looks(filled: Any, make: SimpleNamespace) -> None:
    """A folder that is over its bounds is pruned by a process that publishes anything, if nobody looked for an hour."""
    store = DiskStore(filled.root)
    before = store.usage().bytes
    looked, every = store.layout.size_looked_at.read_text().split()
    store.layout.size_looked_at.write_text(f"{int(looked) - 3600} {every}\n")
    cache = filled(max_size=before // 2)
    cache.publish(make.draft(77), make.contents(77, size=10))
    assert cache.flush()
    assert DiskStore(filled.root).usage().bytes <= before // 2
