"""What stands in deploy/ works, on a real server with that configuration and those users; and what tools say."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from warmgraph.cache import SimilarEntry, StoreUnavailable
from warmgraph.cache.stores.redis import RedisLease, RedisLeases, advice
from warmgraph.cache.typing import Held

DEPLOY = Path(__file__).parent.parent.parent / "deploy"


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory, running: Any) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("deployed")
    users = (DEPLOY / "users.acl").read_text().splitlines()
    lines = [line.replace("0" * 64, hashlib.sha256(line.split()[1].encode()).hexdigest()) for line in users]
    (folder / "users.acl").write_text("\n".join([*lines, "user admin on >admin ~* &* +@all", ""]))
    port = running.free_port()
    options = ("--aclfile", str(folder / "users.acl"), "--port", str(port), "--bind", "127.0.0.1")
    connect = {"port": port, "username": "admin", "password": "admin"}
    with running.server(folder, str(DEPLOY / "redis.conf"), *options, **connect) as one:
        one.place = f"127.0.0.1:{port}/0"
        one.admin_url = f"redis://admin:admin@{one.place}"
        yield one


def keyspace(raw: Any) -> dict[bytes, bytes]:
    """Every key with its value."""
    return {name: raw.dump(name) for name in raw.keys("*")}


def test_writer_and_reader(deployed: Any, make: Any, random_blob: Any) -> None:
    """The writer does everything, by scripts that an administrator loaded; the reader gets hits, changes nothing."""
    make.open_store(deployed.admin_url).install_scripts()
    writer = make.open_store(f"redis://warmgraph-writer:warmgraph-writer@{deployed.place}")
    reader = make.open_store(f"redis://warmgraph-reader:warmgraph-reader@{deployed.place}")
    ref, data = random_blob(3 * 2**20)
    key = make.key_of(1)
    writer.put_blob(ref, data)
    writer.put_entry(key, "v0", b"sealed")
    writer.put_entry(key, "v1", b"sealed")
    writer.quarantine(key, "v1", "why")
    writer.touch(key, "v0", [ref])
    assert writer.flush_touches(20)
    relative = SimilarEntry(key, {"graph": "a" * 16}, 7, 1.7e9)
    writer.relate(["a" * 64], relative)
    writer.probe("write")
    leases = RedisLeases(writer.clients, namespace="tests", seconds=60.0, beat=1000.0)
    lease = leases.acquire(key)
    assert isinstance(lease, RedisLease)
    leases._prolong(lease)
    assert isinstance(RedisLeases(writer.clients, namespace="tests").acquire(key), Held)
    lease.release(ok=False)
    assert leases.flush(20)
    deployed.raw.delete(f"wg:tests:{{{key}}}:lease", *deployed.raw.keys("wg:tests:probe:*"))

    before = keyspace(deployed.raw)
    assert all(deployed.raw.expire(name, 1000) for name in before)  # whoever prolongs one now makes it an hour
    reader.probe("read")
    assert list(reader.entries(key)) == [("v0", b"sealed")]
    assert reader.blob(ref) == data
    assert reader.has_blob(ref)
    assert reader.relatives(["a" * 64]) == [relative]
    assert [found[0] for found in reader.scan()] == [key]
    assert reader.usage(count_bytes=True).pieces == 3
    reader.touch(key, "v0", [ref])
    assert reader.flush_touches(20)
    for work in (
        lambda: reader.put_blob(ref, data),
        lambda: reader.put_entry(key, "v0", b"other"),
        lambda: reader.quarantine(key, "v0", "why"),
        lambda: reader.drop_blob(ref),
        lambda: reader.relate(["a" * 64], relative),
        lambda: reader.probe("write"),
        lambda: RedisLeases(reader.clients, namespace="tests").acquire(key),
    ):
        with pytest.raises(StoreUnavailable, match="WARMGRAPH_URL_MODE=readonly"):
            work()
    assert keyspace(deployed.raw) == before
    assert all(0 < deployed.raw.ttl(name) <= 1000 for name in before)


def test_leases_need_no_info(server: Any, make: Any) -> None:
    """A user with the rights of an older deployment gets them, and waits for them, as before."""
    rights = ["-@all", "+get", "+set", "+del", "+strlen", "+getrange", "+pttl"]
    rights += ["+pexpire", "+time", "+eval", "+evalsha", "+select"]
    server.raw.execute_command("ACL", "SETUSER", "old", "on", ">old", "~*", *rights)
    one, two = (
        RedisLeases(make.open_store(f"redis://old:old@127.0.0.1:{server.port}/0").clients, namespace="tests")
        for _ in range(2)
    )
    lease = one.acquire(make.key_of(1))
    assert isinstance(lease, RedisLease)
    assert isinstance(two.acquire(make.key_of(1)), Held)
    lease.release(ok=True)
    assert one.flush(20)
    one._clients.small.since -= 100  # type: ignore[operator]
    server.raw.delete(f"wg:tests:{{{make.key_of(1)}}}:fence")
    for leases in (one, two):
        lease = leases.acquire(make.key_of(1))
        assert isinstance(lease, RedisLease)
        lease.release(ok=True)
        assert leases.flush(20)


def test_what_the_reader_may_not_ask_is_not_known(deployed: Any, make: Any) -> None:
    """And the deployed settings leave nothing to advise."""
    blobs = sorted(deployed.raw.keys("*:b:*"))
    reader = make.open_store(f"redis://warmgraph-reader:warmgraph-reader@{deployed.place}", readonly=True)
    found = reader.ping()
    assert (found["can_read"], found["can_write"], found["persistence"]) == (True, False, None)
    assert found["maxmemory_policy"] == "allkeys-lru"
    writer = make.open_store(f"redis://warmgraph-writer:warmgraph-writer@{deployed.place}")
    found = writer.ping()
    assert found["can_write"]
    assert found["bytes_per_second_up"] > 0
    speed = dict.fromkeys(("round_trip_seconds", "bytes_per_second_down"))  # says nothing of the settings
    assert advice(found | speed) == []
    assert sorted(deployed.raw.keys("*:b:*")) == blobs


def test_nobody_else_gets_in(deployed: Any, make: Any) -> None:
    """No default user, no other keys, and with the placeholders in place no user at all."""
    with pytest.raises(StoreUnavailable, match="password"):
        make.open_store(f"redis://{deployed.place}").probe("read")
    import redis

    raw = redis.Redis(
        host="127.0.0.1",
        port=deployed.connect["port"],
        username="warmgraph-writer",
        password="warmgraph-writer",
        protocol=2,
    )
    for command in (("GET", "other"), ("SET", "other", "x"), ("FLUSHALL",), ("CONFIG", "GET", "*"), ("KEYS", "*")):
        with pytest.raises(redis.exceptions.NoPermissionError):
            raw.execute_command(*command)


def test_scan_and_usage(store: Any, server: Any, make: Any, random_blob: Any) -> None:
    """Of this namespace only, whatever else there is."""
    for number in range(1200):
        server.raw.set(f"wg:tests:{{{make.key_of(number)}}}:e", make.listed(("v0", 0, b"sealed")))
    ref, data = random_blob(2 * 2**20)
    store.put_blob(ref, data)
    other = make.open_store(server.url, namespace="tests2")
    other.put_entry(make.key_of(1), "v0", b"theirs")
    other.put_blob(ref, data)
    server.raw.set("wg:tests:{wg1}:e", b"x")
    server.raw.set("wg:tests:{wg1" + "zz" * 32 + "}:e", b"x")
    server.raw.set("wg:tests:b:x:0", b"x")
    found = list(store.scan())
    assert sorted(key for key, _, _ in found) == [make.key_of(number) for number in range(1200)]
    assert store.usage().entries == 1200
    usage = store.usage(count_bytes=True)
    assert (usage.pieces, usage.bytes) == (2, 2 * 2**20)


def test_ping_and_advice(store: Any, server: Any) -> None:
    """A server as it comes: no bound, no eviction."""
    found = store.ping()
    assert (found["kind"], found["mode"], found["tls"], found["local"]) == ("redis", "standalone", False, True)
    assert found["version"].count(".") == 2
    assert 0 < found["round_trip_seconds"] < 1
    said = " ".join(advice(found))
    assert "set maxmemory" in said
    assert "noeviction" in said
    assert server.raw.keys("*:b:*") == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"maxmemory_policy": "volatile-lru"}, "allkeys-lru"),
        ({"persistence": True}, "appendonly no"),
        ({"local": False}, "rediss://"),
        ({"version": "6.0.16"}, "is old"),
        ({"round_trip_seconds": 0.08}, "80 ms"),
        ({"bytes_per_second_down": 2.0**20}, "1.0 MB/s"),
        ({"can_read": False}, "may not read"),
    ],
)
def test_advice(changes: dict[str, Any], says: str) -> None:
    """One line for what is wrong, none for what is right or not known."""
    good = {
        "kind": "redis",
        "version": "7.0.15",
        "tls": False,
        "local": True,
        "can_read": True,
        "maxmemory": 10**9,
        "maxmemory_policy": "allkeys-lru",
        "persistence": False,
        "round_trip_seconds": 0.0005,
        "bytes_per_second_down": 1e9,
    }
    assert advice(good) == []
    assert advice(dict.fromkeys(good) | {"can_read": True, "local": True}) == []
    [line] = advice(good | changes)
    assert says in line


def test_an_unreachable_server_is_said_to_be_that(make: Any) -> None:
    """ping has nothing to tell but why."""
    with pytest.raises(StoreUnavailable, match="refused"):
        make.open_store("redis://127.0.0.1:1").ping()
