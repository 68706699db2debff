"""What a host hits in its folder and the server has lost is given back, as it was: by fresh processes, once."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from warmgraph.cache import Cache, Entry, Hit, RedisStore, Role, configure, flush, new_key, open_cache, reset_settings

COUNT = 5
FRESH = """
import sys
import time
from warmgraph.cache import flush, open_cache, settings
cache = open_cache(settings())
tiers = [getattr(cache.lookup(key, lambda entry: True), "tier", None) for key in sys.argv[1:]]
flush()
print(*tiers)
"""


def key_of(number: int) -> str:
    return f"wg1{number:064x}"


def content(number: int) -> list[tuple[Role, str, bytes]]:
    return [(Role.AOT_RESULT, "result", b"%d " % number * 99), (Role.CPP_KERNEL, "kernel", b"\x7fELF%d" % number * 50)]


@pytest.fixture
def hosts(server: Any, tmp_path: Path) -> Any:
    """on(name): a process's cache on a host; its folder stays from one process to the next."""
    common = {"url": server.patient_url, "strict": True}

    def on(name: str, **changes: Any) -> Cache:
        reset_settings()
        return open_cache(configure(**(common | {"dir": tmp_path / name, "signing_key": ring} | changes)))

    def publish(name: str, *, variant: str = "v0", keys: range = range(COUNT), **changes: Any) -> None:
        cache = on(name, **changes)
        for number in keys:
            cache.publish(Entry(key_of(number), variant, {}, variant, {}, ()), content(number))
        assert flush()

    def lookup(name: str, keys: range = range(COUNT), **changes: Any) -> list[str | None]:
        cache = on(name, **changes)
        found = [cache.lookup(key_of(number), lambda entry: True) for number in keys]
        assert flush()
        return [one.tier if isinstance(one, Hit) else None for one in found]

    def stored() -> dict[bytes, bytes]:
        names = sorted(server.raw.scan_iter(match="wg:default:*"))
        return {name: server.raw.get(name) for name in names if name.endswith(b":e") or b":b:" in name}

    ring = new_key()
    yield SimpleNamespace(
        on=on, publish=publish, lookup=lookup, stored=stored, raw=server.raw, ring=ring, common=common
    )
    reset_settings()


@pytest.fixture
def fresh(hosts: Any, tmp_path: Path, cleared: dict[str, str]) -> Callable[[str], list[str]]:
    """The tiers that hits of a fresh process on a host come from."""

    def run(name: str) -> list[str]:
        own = {"WARMGRAPH_DIR": str(tmp_path / name), "WARMGRAPH_URL": hosts.common["url"]}
        command = [sys.executable, "-c", FRESH, *map(key_of, range(COUNT))]
        environment = cleared | own | {"WARMGRAPH_SIGNING_KEY": hosts.ring, "WARMGRAPH_STRICT": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    return run


def test_an_emptied_server_fills_itself(hosts: Any, fresh: Callable[[str], list[str]]) -> None:
    """After one warm start of one host everything is back, byte for byte, and a host with nothing hits."""
    hosts.publish("one")
    before = hosts.stored()
    assert len(before) == 3 * COUNT
    hosts.raw.flushall()
    assert fresh("one") == ["disk"] * COUNT
    assert hosts.stored() == before
    assert fresh("other") == ["redis"] * COUNT


def test_what_came_from_the_server_goes_back_to_it(hosts: Any) -> None:
    """Also by a host that compiled nothing, with the signature of the one that did."""
    hosts.publish("one")
    hosts.lookup("other")
    before = hosts.stored()
    hosts.raw.flushall()
    newer = new_key()
    assert hosts.lookup("other", signing_key=f"{newer},{hosts.ring}") == ["disk"] * COUNT
    assert hosts.stored() == before


def test_a_hit_in_memory_gives_back_as_well(hosts: Any) -> None:
    hosts.publish("one")
    before = hosts.stored()
    cache = hosts.on("one")
    for tier in ("disk", "memory"):
        hosts.raw.flushall()
        cache._healing._known.clear()  # as if it were another process
        assert [cache.lookup(key_of(number), lambda entry: True).tier for number in range(COUNT)] == [tier] * COUNT
        assert flush()
        assert hosts.stored() == before


def test_what_nobody_would_believe_stays(hosts: Any) -> None:
    """Compiled on this host before it had a key."""
    hosts.publish("one", url="", signing_key="")
    assert hosts.lookup("one") == ["disk"] * COUNT
    assert hosts.stored() == {}


def test_readers_give_nothing(hosts: Any) -> None:
    hosts.publish("one")
    hosts.raw.flushall()
    for changes in ({"url_mode": "readonly"}, {"mode": "readonly"}):
        assert hosts.lookup("one", **changes) == ["disk"] * COUNT
        assert hosts.stored() == {}


def test_what_was_set_aside_is_not_brought_back(hosts: Any) -> None:
    """One host finds an entry wrong: it goes from the server, and no other's folder brings it back. A new one stays."""
    hosts.publish("one", keys=range(1))
    hosts.lookup("other", keys=range(1))
    cache = hosts.on("one")
    hit = cache.lookup(key_of(0), lambda entry: True)
    cache.quarantine(key_of(0), "v0", "wrong", hit.sealed)
    assert flush()
    assert hosts.lookup("other", keys=range(1)) == ["disk"], "this test can fail"
    assert not any(name.endswith(b":e") for name in hosts.stored())
    hosts.publish("one", keys=range(1))
    before = hosts.stored()
    for name in list(before):
        hosts.raw.delete(name)
    assert hosts.lookup("one", keys=range(1)) == ["disk"]
    assert hosts.stored() == before


def test_revoked_is_not_given_back(hosts: Any) -> None:
    """A process that hit in its memory, and learns of a revocation, keeps it to itself."""
    hosts.publish("one", keys=range(1))
    cache = hosts.on("one")
    hosts.raw.flushall()
    assert cache.lookup(key_of(0), lambda entry: True).tier == "disk"
    assert flush()
    assert hosts.stored()
    hosts.raw.flushall()
    cache._healing._known.clear()
    cache._healing._believed = SimpleNamespace(
        namespace="default", find=cache._healing._believed.find, revoked=lambda *_: "a broken compiler"
    )
    assert cache.lookup(key_of(0), lambda entry: True).tier == "memory"
    assert flush()
    assert hosts.stored() == {}


def test_a_poisoned_key_stays(hosts: Any) -> None:
    hosts.publish("one", keys=range(2))
    hosts.raw.flushall()
    hosts.raw.hset(f"wg:default:{{{key_of(0)}}}:e", "a", "b")
    hosts.raw.set(f"wg:default:{{{key_of(1)}}}:e", b"no entry of ours")
    assert hosts.lookup("one", keys=range(2)) == ["disk", "disk"]
    assert hosts.raw.hgetall(f"wg:default:{{{key_of(0)}}}:e") == {b"a": b"b"}
    assert hosts.raw.get(f"wg:default:{{{key_of(1)}}}:e") == b"no entry of ours"


def test_a_lost_variant_goes_beside_the_others(hosts: Any) -> None:
    hosts.publish("one", keys=range(1), variant="first")
    hosts.raw.flushall()
    hosts.publish("other", keys=range(1), variant="second")
    hosts.lookup("one", keys=range(1))
    cache = hosts.on("third")
    for variant in ("first", "second"):
        found = cache.lookup(key_of(0), lambda entry, variant=variant: entry.variant == variant)
        assert isinstance(found, Hit), variant


def test_one_cheap_question_per_key_and_process(hosts: Any, make: Any) -> None:
    """All there: a length for each key, once, however often it is hit; nothing is read, nothing is written."""
    hosts.publish("one")
    cache = hosts.on("one")
    assert flush()
    make.servers.wait_for_revocations()
    hosts.raw.config_resetstat()
    for _ in range(3):
        for number in range(COUNT):
            assert isinstance(cache.lookup(key_of(number), lambda entry: True), Hit)
    assert flush()
    calls = {name.removeprefix("cmdstat_"): row["calls"] for name, row in hosts.raw.info("commandstats").items()}
    for administrative in ("config|resetstat", "info", "hello", "client|setinfo", "ping", "select"):
        calls.pop(administrative, None)
    assert calls == {"strlen": COUNT}


def test_a_sick_server_is_asked_when_it_is_back(own_server: Any, tmp_path: Path) -> None:
    """What was hit meanwhile is given back with the next hit, by the same process."""
    shared = {"url": own_server.patient_url, "signing_key": new_key(), "dir": tmp_path / "one"}
    cache = open_cache(configure(**shared))
    for number in range(3):
        cache.publish(Entry(key_of(number), "v0", {}, None, {}, ()), content(number))
    assert flush()
    own_server.stop()
    reset_settings()
    cache = open_cache(configure(**shared))
    for number in range(2):
        assert cache.lookup(key_of(number), lambda entry: True).tier == "disk"
    assert flush()
    assert "redis" in cache.health()
    own_server.start()

    def usable() -> bool:
        return not cache.health()

    from_conftest = sys.modules["warmgraph_tests_remote_servers"]
    from_conftest.wait_for(usable, "it is not used again", seconds=60)
    assert cache.lookup(key_of(2), lambda entry: True).tier == "disk"
    assert flush()
    assert len(list(own_server.raw.scan_iter(match="*:e"))) == 3


def test_a_cluster_is_asked_as_well(nodes: Any, tmp_path: Path) -> None:
    """Keys of all its nodes in one question."""
    places = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
    url = f"redis+cluster://{places}?socket_timeout=10&socket_connect_timeout=10"
    shared = {"url": url, "signing_key": new_key(), "dir": tmp_path / "one", "strict": True, "namespace": "healing"}
    cache = open_cache(configure(**shared))
    for number in range(12):
        cache.publish(Entry(key_of(number), "v0", {}, None, {}, ()), content(number))
    assert flush(60)
    for node in nodes:
        node.raw.flushall()
    reset_settings()
    cache = open_cache(configure(**shared))
    assert {cache.lookup(key_of(number), lambda entry: True).tier for number in range(12)} == {"disk"}
    assert flush(60)
    reset_settings()
    cache = open_cache(configure(**(shared | {"dir": tmp_path / "other"})))
    assert {cache.lookup(key_of(number), lambda entry: True).tier for number in range(12)} == {"redis"}
    reset_settings()


@pytest.mark.parametrize(("ttl", "later", "prolonged"), [(120, 70, True), (120, 10, False), (86_400, 1800, False)])
def test_what_is_hit_in_folders_lives_on_the_server(
    hosts: Any, monkeypatch: pytest.MonkeyPatch, ttl: int, later: int, prolonged: bool
) -> None:
    """However short a life there is: a use is told before half of it is over, and not at every hit."""
    hosts.publish("one", ttl=ttl)
    names = hosts.stored()
    for name in names:
        hosts.raw.expire(name, 20)
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + later)
    assert set(hosts.lookup("one", ttl=ttl)) <= {"memory", "disk"}
    assert all(one.flush_touches(20) for one in hosts.on("one", ttl=ttl)._tiers if isinstance(one, RedisStore))
    assert {hosts.raw.ttl(name) > 20 for name in names} == {prolonged}
