"""The index of resemblances: records, their choice, and the index over tiers, damage and eviction."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from warmgraph.cache import (
    Cache,
    DiskStore,
    Entry,
    MemoryStore,
    Miss,
    Reason,
    SimilarEntry,
    StoreSilent,
    StoreUnavailable,
    addresses,
    copy_entries,
    differing,
    export_bundle,
    import_bundle,
    nearest_first,
    read_local,
)
from warmgraph.cache.format.seal import accept_checksum
from warmgraph.cache.stores.circuit_breaker import Health
from warmgraph.cache.stores.similar import MAX_RECORDS, decode_relative, encode_relative, newest_each, relative_of

PARTS = {name: f"{number:064x}" for number, name in enumerate(("graph", "inputs", "compiler", "ambient"), start=1)}
PLACE = {"function": "forward", "file": "/src/model.py", "line": 7}


def entry_of(make: SimpleNamespace, number: int, *, parts: dict[str, str] | None = None, **facts: Any) -> Entry:
    told = PLACE | {"created": 1.7e9 + number, **facts}
    return replace(make.draft(number), parts=PARTS | (parts or {}), facts=told)


def publish(cache: Cache, make: SimpleNamespace, *entries: Entry) -> None:
    for entry in entries:
        cache.publish(entry, make.contents(int(entry.key[3:], 16)))
    assert cache.flush()


def explained(cache: Cache, key: str, parts: dict[str, str] | None = None, **facts: Any) -> Miss:
    return cache.explained(Miss(Reason.ABSENT), key, PARTS | (parts or {}), PLACE | facts)


# -- records


def test_a_record_comes_back(make: SimpleNamespace) -> None:
    """Key, line, time to the millisecond, and the beginnings of the parts' digests."""
    noted = relative_of(entry_of(make, 5))
    assert decode_relative(encode_relative(noted)) == noted
    assert noted.line == 7
    assert noted.parts["graph"] == PARTS["graph"][:16]


@given(st.binary(max_size=200) | st.text("0123456789abcdefwg1= gp", max_size=200).map(str.encode))
def test_no_bytes_are_an_error(data: bytes) -> None:
    """What is no record is None; what is one can be written again."""
    found = decode_relative(data)
    assert found is None or decode_relative(encode_relative(found)) == found


def test_odd_facts_make_a_record_all_the_same(make: SimpleNamespace) -> None:
    """Facts come from anywhere: times beyond clocks, lines that are none."""
    for created, line in ((1e300, -3), (-1.0, 10**30), ("soon", "x"), (None, True), (float("1e12"), 2.5)):
        noted = relative_of(entry_of(make, 1, created=created, line=line))
        assert decode_relative(encode_relative(noted)) is not None


def test_addresses_do_not_depend_on_the_folder_of_a_file() -> None:
    """The same function in the same file of another host's home has the same address; another function has not."""
    here, there = addresses(PARTS, PLACE), addresses(PARTS, PLACE | {"file": "/home/you/model.py", "line": 9})
    assert here == there
    assert len(set(here + addresses(PARTS, PLACE | {"function": "other"}))) == 3
    assert addresses({"graph": "../../etc"}, {}) == []


def test_the_nearest_has_the_graph_then_the_line_then_most_parts_then_is_newest() -> None:
    """In this order; and each key counts once."""

    def one(number: int, line: int | None, when: float, **parts: str) -> SimilarEntry:
        return SimilarEntry(f"wg1{number:064x}", PARTS | {name: text * 64 for name, text in parts.items()}, line, when)

    graph_old, graph_new = one(1, 90, 1.0, inputs="9"), one(2, 90, 2.0, compiler="9")
    graph_far = one(3, 7, 9.0, inputs="9", compiler="9")
    line = one(4, 7, 1.0, graph="9", inputs="9", compiler="9", ambient="9")
    function = one(5, 8, 9.0, graph="9")
    found = nearest_first(PARTS, 7, [function, line, graph_far, graph_old, graph_new, graph_old])
    assert found == [graph_new, graph_old, graph_far, line, function]
    assert differing(PARTS, graph_far.parts) == ("inputs", "compiler")


def test_a_crowd_at_one_line_leaves_room_for_the_others() -> None:
    """A file has many functions called `forward`; each line keeps its newest."""
    crowd = [SimilarEntry(f"wg1{n:064x}", {}, 1, 1000.0 + n) for n in range(200)]
    alone = SimilarEntry(f"wg1{999:064x}", {}, 2, 1.0)
    kept = newest_each([alone, *crowd])
    assert len(kept) == MAX_RECORDS
    assert alone in kept
    assert crowd[-1] in kept


# -- over tiers


def test_a_miss_names_the_nearest_and_the_parts(opener: Any, make: SimpleNamespace) -> None:
    """Another process' entry is found in the folder, and the parts that differ are named."""
    far = entry_of(make, 1, parts={"inputs": "9" * 64, "compiler": "9" * 64})
    publish(opener(), make, far, entry_of(make, 2, parts={"inputs": "9" * 64}))
    miss = explained(opener(), make.key_of(3))
    assert miss.nearest is not None
    assert miss.nearest.key == make.key_of(2)
    assert miss.differs == ("inputs",)


def test_what_is_not_published_yet_is_found_in_memory(opener: Any, make: SimpleNamespace) -> None:
    """In one process the next graph is compared with the one before it, whatever the background has written."""
    cache = opener()
    cache.publish(entry_of(make, 1), make.contents(1))
    assert explained(cache, make.key_of(2), {"inputs": "9" * 64}).differs == ("inputs",)
    assert cache.flush()


def test_another_function_and_graph_have_no_relative(opener: Any, make: SimpleNamespace) -> None:
    """A graph that is new everywhere has no nearest entry."""
    publish(opener(), make, entry_of(make, 1))
    miss = explained(opener(), make.key_of(2), {"graph": "9" * 64}, function="other")
    assert (miss.nearest, miss.differs, miss.detail) == (None, (), None)


def test_only_an_absent_key_is_compared(opener: Any, make: SimpleNamespace) -> None:
    """For every other reason the reason itself says what happened."""
    publish(opener(), make, entry_of(make, 1))
    for reason in set(Reason) - {Reason.ABSENT}:
        miss = Miss(reason, 1, "why")
        assert opener().explained(miss, make.key_of(2), PARTS, PLACE) is miss


def test_a_key_that_was_there_says_so(opener: Any, make: SimpleNamespace) -> None:
    """After an eviction the miss says that this very key was published before."""
    publish(opener(), make, entry_of(make, 1), entry_of(make, 2, parts={"inputs": "9" * 64}))
    next((opener.root / "entries").glob(f"*/{make.key_of(1)}/v0")).unlink()
    miss = explained(opener(), make.key_of(1))
    assert miss.nearest is not None
    assert miss.nearest.key == make.key_of(1)
    assert miss.differs == ()
    assert "published before" in str(miss.detail)


def test_a_key_that_another_published_meanwhile_is_not_said_to_be_gone(opener: Any, make: SimpleNamespace) -> None:
    """Between a lookup and its explanation another process may have been faster."""
    publish(opener(), make, entry_of(make, 1), entry_of(make, 2, parts={"inputs": "9" * 64}))
    miss = explained(opener(), make.key_of(1))
    assert (miss.detail, miss.differs) == (None, ("inputs",))


def test_what_is_copied_is_indexed(opener: Any, make: SimpleNamespace, tmp_path: Path) -> None:
    """An image's or another folder's entries explain misses as those that were published here."""
    publish(opener(), make, entry_of(make, 1))
    source, target = DiskStore(opener.root), DiskStore(tmp_path / "target")
    listed = read_local(source.scan())
    copy_entries(source, target, listed, source_verifier=accept_checksum, target_verifier=accept_checksum)
    with (tmp_path / "bundle").open("wb") as file:
        export_bundle(source, file, list(source.scan()), verifier=accept_checksum)
    bundled = DiskStore(tmp_path / "bundled")
    with (tmp_path / "bundle").open("rb") as file:
        import_bundle(file, bundled, verifier=accept_checksum)
    for store in (target, bundled):
        assert [one.key for one in store.relatives(addresses(PARTS, PLACE))] == [make.key_of(1)] * 2


def test_a_relative_that_is_gone_is_behind_one_that_is_there(opener: Any, make: SimpleNamespace) -> None:
    """Only an entry that is still there can be shown line by line."""
    publish(opener(), make, entry_of(make, 1, parts={"inputs": "8" * 64, "compiler": "8" * 64}), entry_of(make, 2))
    assert explained(opener(), make.key_of(3), {"inputs": "9" * 64}).nearest == relative_of(entry_of(make, 2))
    next((opener.root / "entries").glob(f"*/{make.key_of(2)}/v0")).unlink()
    nearest = explained(opener(), make.key_of(3), {"inputs": "9" * 64}).nearest
    assert nearest is not None
    assert nearest.key == make.key_of(1)


def test_a_tier_that_is_filled_by_a_hit_is_indexed(opener: Any, make: SimpleNamespace, tmp_path: Path) -> None:
    """What came from below explains misses here, when the tier below is gone."""
    below, disk = DiskStore(tmp_path / "below", name="below"), DiskStore(tmp_path / "disk")
    publish(Cache(MemoryStore(), [below]), make, entry_of(make, 1))
    cache = Cache(MemoryStore(), [disk, below])
    cache.lookup(make.key_of(1), make.always)
    assert cache.flush()
    assert [one.key for one in disk.relatives(addresses(PARTS, PLACE))] == [make.key_of(1)] * 2


class _Odd(MemoryStore):
    """An index that fails, in one way or another."""

    def __init__(self, error: StoreUnavailable) -> None:
        super().__init__(name="odd")
        self.error = error

    def relate(self, addresses: Any, relative: SimilarEntry) -> None:
        raise self.error

    def relatives(self, addresses: Any) -> list[SimilarEntry]:
        raise self.error


@pytest.mark.parametrize("error", [StoreUnavailable("refused"), StoreSilent("silent")])
def test_an_index_that_fails_costs_no_result(make: SimpleNamespace, error: StoreUnavailable) -> None:
    """It is passed by, even when strict; the tier is left out only when it fell silent."""
    health = Health()
    cache = Cache(MemoryStore(max_bytes=0), [_Odd(error)], strict=True, health=health)
    publish(cache, make, entry_of(make, 1))
    assert explained(cache, make.key_of(2)).nearest == relative_of(entry_of(make, 1))  # memory knows
    assert health.usable("odd", "read") == (not isinstance(error, StoreSilent))
    if health.usable("odd", "read"):
        assert not isinstance(cache.lookup(make.key_of(1), make.always), Miss)


# -- on disk


def test_damage_is_passed_by(opener: Any, make: SimpleNamespace) -> None:
    """Torn, foreign and hostile lines hide no record beside them, and lie in no reader's way."""
    publish(opener(), make, entry_of(make, 1))
    for path in (opener.root / "near").glob("*/*"):
        good = path.read_bytes()
        path.write_bytes(b"\xff\xfe\n1 wg1\n" + b"x" * 5000 + b"\n" + good[:40] + b"\n" + good + good[:60])
    assert explained(opener(), make.key_of(2), {"inputs": "9" * 64}).differs == ("inputs",)
    publish(opener(), make, entry_of(make, 2, parts={"inputs": "9" * 64}))  # behind a torn record
    assert explained(opener(), make.key_of(3), {"inputs": "9" * 64, "compiler": "9" * 64}).differs == ("compiler",)
    assert opener().health() == {}


def test_what_stands_in_the_way_is_no_error(opener: Any, make: SimpleNamespace) -> None:
    """A folder, a link or a file where the index should be: nothing is explained, everything is kept."""
    publish(opener(), make, entry_of(make, 1))
    for path in (opener.root / "near").glob("*/*"):
        path.unlink()
        path.symlink_to("/dev/zero")
    publish(opener(strict=True), make, entry_of(make, 2))
    for shard in (opener.root / "near").glob("*"):
        for path in shard.iterdir():
            path.unlink()
        shard.rmdir()
    (opener.root / "near").rmdir()
    (opener.root / "near").write_bytes(b"foreign")
    cache = opener(strict=True)
    publish(cache, make, entry_of(make, 3))
    fresh = opener(strict=True)
    assert explained(fresh, make.key_of(4)).nearest is None
    assert fresh.health() == cache.health() == {}
    assert not isinstance(fresh.lookup(make.key_of(3), make.always), Miss)


def test_it_counts_and_goes_with_the_last_entry_it_knows(opener: Any, make: SimpleNamespace) -> None:
    """Its files are part of the folder's size; one is removed when no entry it knows is left."""
    publish(opener(), make, entry_of(make, 1), entry_of(make, 2, parts={"graph": "9" * 64}, function="other"))
    store = DiskStore(opener.root)
    index = sorted((opener.root / "near").glob("*/*"))
    assert len(index) == 4
    on_disk = [path for folder in ("entries", "objects", "near") for path in (opener.root / folder).rglob("*")]
    assert store.usage().files == sum(path.is_file() for path in on_disk)
    assert store.usage().bytes == sum(path.stat().st_size for path in on_disk if path.is_file())
    next((opener.root / "entries").glob(f"*/{make.key_of(1)}/v0")).unlink()
    assert store.prune(10**9, 10**6).leftovers == 0  # within the grace: its entry may be on its way
    report = store.prune(10**9, 10**6, now=time.time() + 601)
    assert report.leftovers == 2
    left = [path for path in index if path.exists()]
    assert len(left) == 2
    assert all(make.key_of(2).encode() in path.read_bytes() for path in left)
    assert report.files == store.usage().files
    assert store.verify().findings == ()
    assert store.prune(0, 0, now=time.time() + 601).files == 0
    assert not list((opener.root / "near").glob("*/*"))


def test_the_bound_on_files_counts_the_index(opener: Any, make: SimpleNamespace) -> None:
    """A folder of many functions stays within its files, the index included."""
    entries = [entry_of(make, n, parts={"graph": f"{n:064x}"}, function=f"f{n}") for n in range(20)]
    publish(opener(), make, *entries)
    store = DiskStore(opener.root)
    assert store.usage().files == 20 * 6
    store.prune(10**9, 60, now=time.time() + 601)
    assert store.usage().files == 60
    assert len(list(store.scan())) == 10


PROGRAM = """
import sys
from pathlib import Path
from warmgraph.cache import DiskStore, SimilarEntry
store, first = DiskStore(Path(sys.argv[1])), int(sys.argv[2])
for number in range(first, first + 25):
    store.relate(["a" * 64], SimilarEntry(f"wg1{number:064x}", {"graph": "a" * 16}, number, 1.7e9))
"""


def test_processes_note_at_once(tmp_path: Path) -> None:
    """Two processes that append to one file lose none of each other's records."""
    root = tmp_path / "store"
    DiskStore(root)
    command = [sys.executable, "-c", PROGRAM, str(root)]
    workers = [subprocess.Popen([*command, str(first)], env=dict(os.environ)) for first in (0, 25)]
    assert [worker.wait(60) for worker in workers] == [0, 0]
    assert len({one.key for one in DiskStore(root).relatives(["a" * 64])}) == 50
