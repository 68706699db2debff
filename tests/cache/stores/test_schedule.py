"""When a folder's size is looked at: one of the processes that write to it does, and fetching is writing too."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from warmgraph.cache import Cache, DiskStore, Hit, MemoryStore
from warmgraph.cache.stores.disk.schedule import LOOK_AGAIN, Schedule
from warmgraph.cache.tiers.access import Policy

MIB = 2**20
NOW = 1_700_000_000.0


def test_one_process_is_told(tmp_path: Path) -> None:
    """Of thirty that write at once to a folder that nobody looked at, and of thirty an hour later, one each."""
    with ThreadPoolExecutor(30) as pool:
        for number in range(20):
            path = tmp_path / f"store{number}" / "size-looked-at"
            for now in (NOW, NOW + LOOK_AGAIN):
                told = pool.map(lambda _, path=path, now=now: Schedule(path).is_due(10, 100 * MIB, now), range(30))
                assert sum(told) == 1


def test_what_all_wrote_counts(tmp_path: Path) -> None:
    """After so many bytes by whichever process; what is less than a MiB is counted once it is one."""
    path = tmp_path / "size-looked-at"
    first, second = Schedule(path), Schedule(path)
    assert first.is_due(10**9, 8 * MIB, NOW), "nobody ever looked"
    small = [first.is_due(MIB // 4, 8 * MIB, NOW) for _ in range(16)]
    assert not any(small)
    assert [second.is_due(MIB, 8 * MIB, NOW) for _ in range(4)] == [False, False, False, True]
    assert not first.is_due(0, 8 * MIB, NOW)


@pytest.mark.parametrize("there", [b"", b"soon\n", b"\xff" * 100, b"1 2 3\n", b"99999999999999999999999999999999 1\n"])
def test_a_file_that_says_nothing(tmp_path: Path, there: bytes) -> None:
    """Damaged, or of another clock: somebody looks, and writes it anew."""
    path = tmp_path / "size-looked-at"
    path.write_bytes(there)
    assert Schedule(path).is_due(0, 8 * MIB, NOW)
    assert not Schedule(path).is_due(0, 8 * MIB, NOW)


def test_a_narrower_bound_is_looked_at(tmp_path: Path) -> None:
    """Whoever lowers WARMGRAPH_MAX_SIZE need not wait for an hour."""
    path = tmp_path / "size-looked-at"
    assert Schedule(path).is_due(0, 8 * MIB, NOW)
    assert Schedule(path).is_due(0, 4 * MIB, NOW)
    assert not Schedule(path).is_due(0, 8 * MIB, NOW)


def test_what_is_fetched_makes_room(opener: Any, make: SimpleNamespace, tmp_path: Path) -> None:
    """A process that only fetches keeps its folder within its bound."""
    filled = opener()
    for number in range(8):
        filled.publish(make.draft(number), make.contents(number, size=20_000))
    assert filled.flush()
    one = DiskStore(opener.root).usage().bytes // 8
    near = DiskStore(tmp_path / "near")
    for number in range(8):
        far = DiskStore(opener.root, name="far", readonly=True)
        policies = {"far": Policy(readonly=True, remote=True)}
        cache = Cache(MemoryStore(), [near, far], policies=policies, max_size=3 * one)
        assert isinstance(cache.lookup(make.key_of(number), make.always), Hit)
        assert cache.flush()
        then = time.time() - LOOK_AGAIN
        near.layout.size_looked_at.write_bytes(b"%d %d\n" % (then, 0))
        for path in near.root.rglob("*"):
            if path.is_file():
                os.utime(path, (then + number, then + number))
    assert near.usage().bytes <= 4 * one
    assert DiskStore(opener.root).usage().entries == 8, "where it only reads, nothing is removed"


def test_publishing_goes_on_where_the_size_is_not_known(opener: Any, make: SimpleNamespace) -> None:
    """The note on a folder's size cannot be read; its results can be written all the same."""
    place = DiskStore(opener.root).layout.size_looked_at
    place.mkdir(parents=True)
    cache = opener()
    for number in range(3):
        cache.publish(make.draft(number), make.contents(number))
        assert cache.flush()
    assert cache.health() == {}
    assert DiskStore(opener.root).usage().entries == 3
