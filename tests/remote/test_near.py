"""The index of resemblances on a server: bounded, expiring, indifferent to what others put there; scans by prefix."""

from __future__ import annotations

from typing import Any

from warmgraph.cache import Cache, MemoryStore, Miss, Reason, RedisStore, SimilarEntry
from warmgraph.cache.stores.similar import MAX_RECORDS
from warmgraph.cache.tiers.access import Policy

ADDRESS = "a" * 64
NAME = f"wg:tests:near:{ADDRESS}"
PARTS = {"graph": ADDRESS, "inputs": "b" * 64}
FACTS = {"function": "forward", "file": "/src/model.py", "line": 7}


def relative_of(number: int) -> SimilarEntry:
    return SimilarEntry(f"wg1{number:064x}", {"graph": "a" * 16}, 7, 1.7e9 + number)


def test_it_is_bounded_and_expires(store: RedisStore, server: Any) -> None:
    """Those noted last stay, one for each key, and all goes with the time to live."""
    for number in [*range(1, 100), 99, 0]:
        store.relate([ADDRESS], relative_of(number))
    keys = [line.split()[1].decode() for line in server.raw.get(NAME).splitlines()]
    assert len(keys) == len(set(keys)) == MAX_RECORDS
    assert [int(key[3:], 16) for key in keys] == [0, *range(99, 100 - MAX_RECORDS, -1)]
    assert 3590 <= server.raw.ttl(NAME) <= 3600


def test_what_others_put_there_is_passed_by(store: RedisStore, server: Any) -> None:
    """Values that are no records, and a value of another type, hide nothing and are replaced."""
    store.relate([ADDRESS], relative_of(1))
    server.raw.append(NAME, b"\n\xff\n1 wg1 7\n" + b"z" * 5000)
    assert store.relatives([ADDRESS, "b" * 64]) == [relative_of(1)]
    server.raw.delete(NAME)
    server.raw.lpush(NAME, b"another type")
    store.relate([ADDRESS], relative_of(2))
    assert store.relatives([ADDRESS]) == [relative_of(2)]


def test_an_index_of_another_type_costs_no_tier(server: Any, make: Any) -> None:
    """A lookup goes on being served when the index on its server cannot be read."""
    store = make.open_store(server.url)
    cache = Cache(MemoryStore(), [store], policies={"redis": Policy(remote=True)}, strict=True)
    server.raw.lpush(NAME, b"another type")
    assert cache.explained(Miss(Reason.ABSENT), make.key_of(1), PARTS, FACTS).nearest is None
    assert cache.health() == {}
    assert isinstance(cache.lookup(make.key_of(1), lambda entry: True), Miss)


def test_another_host_finds_the_nearest_in_one_round_trip(server: Any, make: Any) -> None:
    """What one host published explains the miss of another whose folder is empty."""
    store = make.open_store(server.url)
    store.relate([ADDRESS], relative_of(1))
    cache = Cache(MemoryStore(), [make.open_store(server.url)], policies={"redis": Policy(remote=True)})
    make.servers.wait_for_revocations()
    before = server.raw.info("commandstats").get("cmdstat_getrange", {"calls": 0})["calls"]
    miss = cache.explained(Miss(Reason.ABSENT), make.key_of(2), PARTS, FACTS)
    assert miss.nearest == relative_of(1)
    assert miss.differs == ("inputs",)
    assert server.raw.info("commandstats")["cmdstat_getrange"]["calls"] - before == 2  # both in one pipeline


def test_a_silent_server_is_asked_once(server: Any, proxy: Any, through_proxy: Any, make: Any) -> None:
    """Its silence is noted, and the next miss does not wait for it."""
    store = through_proxy(timeout=10)
    cache = Cache(MemoryStore(), [store], policies={"redis": Policy(remote=True)})
    store.probe("read")
    proxy.mode, store.clients.deadline = make.Mode.SILENT, 0.15
    assert cache.explained(Miss(Reason.ABSENT), make.key_of(1), PARTS, FACTS).nearest is None
    assert set(cache.health()) == {"redis"}


def test_a_scan_by_prefix_finds_only_those(store: RedisStore, make: Any) -> None:
    """Tools that are given the beginning of a key do not fetch every entry."""
    for number in (0x10, 0x11, 0x20):
        store.put_entry(f"wg1{number:02x}{'0' * 62}", "v0", b"sealed")
    assert sorted(key[:5] for key, _, _ in store.scan("wg11")) == ["wg110", "wg111"]
    assert len(list(store.scan())) == 3
    assert list(store.scan("wg1*")) == []
