"""A poisoned key costs its own lookups and nothing else: each way that was seen, against a real server."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest
from warmgraph.cache import Event, Hit, Miss, Outcome, open_journaled, open_remote
from warmgraph.cache.stores.circuit_breaker import Health
from warmgraph.cache.typing import Held, StoreUnavailable
from warmgraph_tests_trust_hosts import Fleet, key_of, listed

GREATEST = f"{2**64 - 1}-{2**64 - 1}"


def wrong_type(fleet: Fleet, name: str) -> None:
    fleet.raw.delete(name)
    fleet.raw.rpush(name, b"a list")


def as_hash(fleet: Fleet, name: str) -> None:
    fleet.raw.delete(name)
    fleet.raw.hset(name, mapping={"v0": b"x", "g:v0": b"18446744073709551616"})


def huge(fleet: Fleet, name: str) -> None:
    """17 MB: longer than any value of ours, made by the server."""
    fleet.raw.delete(name)
    fleet.raw.setrange(name, 17 * 2**20, b"x")


def huge_hash(fleet: Fleet, name: str) -> None:
    fleet.raw.delete(name)
    for number in range(4):
        fleet.raw.hset(name, f"v{number}", bytes(2**24))


def generation(fleet: Fleet, name: str) -> None:
    value = fleet.raw.get(name)
    fleet.raw.set(name, listed(("v0", 2**64, value.partition(b"\n")[2] if value else b"x")))


def strangers(fleet: Fleet, name: str) -> None:
    fleet.raw.set(name, listed(*((f"x{number}", 2**64 - 1, os.urandom(200)) for number in range(99))))


ENTRIES: list[Callable[[Fleet, str], None]] = [wrong_type, as_hash, huge, huge_hash, generation, strangers]


@pytest.mark.parametrize("poison", ENTRIES)
def test_an_entry_is_written_over(fleet: Fleet, poison: Any) -> None:
    """Whatever lies there: a miss, no outage, and what is published then hits, on every host."""
    fleet.host().publish(1)
    poison(fleet, fleet.entries(1))
    host = fleet.host()
    cache = host.cache()
    assert isinstance(cache.lookup(key_of(1), lambda entry: True), Miss)
    assert cache.flush()
    assert cache.health() == {}
    fleet.host().publish(1)
    assert isinstance(fleet.host().lookup(1), Hit)


@pytest.mark.parametrize("poison", [wrong_type, as_hash, huge])
@pytest.mark.parametrize("what", ["lease", "fence"])
def test_leases_heal(fleet: Fleet, poison: Any, what: str) -> None:
    """A lease or a fence of another type, or too long to be one: taken, published under, given back."""
    poison(fleet, f"wg:default:{{{key_of(1)}}}:{what}")
    cache = fleet.host(wait=0).cache()
    with cache.flight(key_of(1)) as flight:
        assert flight.token > 0, "it could be had"
        flight.settle(ok=True)
    assert cache.health() == {}
    fleet.host().publish(1)
    assert isinstance(fleet.host().lookup(1), Hit)


@pytest.mark.parametrize("value", ["18446744073709551616", str(2**64 - 1), "9" * 16, "1" * 40])
def test_a_fence_from_no_clock_stops_no_publish(fleet: Fleet, value: str) -> None:
    fleet.raw.set(f"wg:default:{{{key_of(1)}}}:fence", value)
    cache = fleet.host().cache()
    with cache.flight(key_of(1)) as flight:
        assert 0 < flight.token < 2**53
        flight.settle(ok=True)
    fleet.host().publish(1)
    assert isinstance(fleet.host().lookup(1), Hit)


@pytest.mark.parametrize("poison", [wrong_type, as_hash, huge])
def test_pieces_heal(fleet: Fleet, poison: Any) -> None:
    """Of a blob: a miss, and the next publish (or push) writes them again."""
    fleet.host().publish(1)
    for name in fleet.raw.keys("wg:default:b:*"):
        poison(fleet, name.decode())
    cache = fleet.host().cache()
    assert isinstance(cache.lookup(key_of(1), lambda entry: True), Miss)
    assert cache.flush()
    assert cache.health() == {}
    fleet.host().publish(1)
    assert isinstance(fleet.host().lookup(1), Hit)


def test_the_breaker_counts_the_servers_failures_only(fleet: Fleet) -> None:
    """Three keys of forty of the wrong type: the other 37 hit, in one process, in order."""
    fleet.host().publish(*range(40))
    for number in (3, 17, 29):
        wrong_type(fleet, fleet.entries(number))
    host = fleet.host()
    assert host.hits(*range(40)) == [number for number in range(40) if number not in (3, 17, 29)]


def test_a_sick_tier_recovers_whatever_its_old_probe_key_is(fleet: Fleet) -> None:
    """The key that is written and read to see whether that works is another each time."""
    wrong_type(fleet, "wg:default:probe")
    remote = open_remote(fleet.host().settings())
    assert remote is not None
    health = Health({"redis": remote.probe})
    health.failed("redis", "read", StoreUnavailable("made up"))
    for use in ("read", "write"):
        remote.probe(use)  # type: ignore[arg-type]
    assert not fleet.raw.keys("wg:default:probe:*") or fleet.raw.pttl(fleet.raw.keys("wg:default:probe:*")[0]) <= 1000


def test_a_huge_record_of_the_index_is_never_fetched(fleet: Fleet) -> None:
    """What explains a miss is asked for up to a length: the server sends no more, and the next noted entry heals it."""
    host = fleet.host()
    host.publish(1)
    (name,) = fleet.raw.keys("wg:default:near:*")
    fleet.raw.setrange(name, 150 * 2**20, b"x")
    sent = int(fleet.raw.info("stats")["total_net_output_bytes"])
    cache = fleet.host().cache()
    miss = cache.lookup(key_of(2), lambda entry: True)
    assert isinstance(miss, Miss)
    cache.explained(miss, key_of(2), {"graph": "a" * 64}, {})
    assert cache.health() == {}
    assert int(fleet.raw.info("stats")["total_net_output_bytes"]) - sent < 2**20
    host.publish(3)
    assert fleet.raw.strlen(name) < 2**20


@pytest.mark.parametrize("how", ["greatest id", "wrong type"])
def test_the_fleets_journal_heals(fleet: Fleet, how: str) -> None:
    """One XADD with the greatest id, or a list in its place: the next event is there all the same."""
    if how == "greatest id":
        fleet.raw.xadd("wg:default:events", {"e": b"x"}, id=GREATEST)
    else:
        wrong_type(fleet, "wg:default:events")
    settings = fleet.host().settings()
    cache, journal = open_journaled(settings)
    assert journal is not None
    assert journal.append(Event(Outcome.MISS, function="after"))
    stream = journal._send.__self__  # type: ignore[union-attr]
    assert stream.flush(20)
    assert stream.lost == 0
    remote = open_remote(settings)
    assert remote is not None
    lines = [line for _, line in remote.tail().new() if line is not None]
    assert any(b'"after"' in line for line in lines)
    assert cache.health() == {}


def endless(listener: socket.socket, sent: list[int]) -> None:
    """A server whose every answer is a string that does not end."""
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        try:
            client.recv(2**16)
            client.sendall(b"$500000000\r\n")
            while True:
                sent.append(client.send(bytes(2**20)))
        except OSError:
            client.close()


def test_an_answer_has_a_cap_in_bytes(fleet: Fleet) -> None:
    """A hostile server that sends half a gigabyte is cut off after a few megabytes, however fast it is."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sent: list[int] = []
        threading.Thread(target=endless, args=(listener, sent), daemon=True).start()
        url = f"redis://127.0.0.1:{listener.getsockname()[1]}?socket_timeout=60"
        found = fleet.host(url=url).lookup(1)
        assert isinstance(found, Miss)
        assert sum(sent) < 100 * 2**20
        listener.shutdown(socket.SHUT_RDWR)


def test_nothing_unsigned_goes_into_what_is_signed(fleet: Fleet) -> None:
    """A fence far ahead, within what a clock explains: the entry is still of this host's own time."""
    import time

    from warmgraph.cache.format.seal import generation_of

    ahead = int(time.time() * 1e6) + 20 * 3600 * 10**6
    fleet.raw.set(f"wg:default:{{{key_of(1)}}}:fence", ahead)
    host = fleet.host()
    cache = host.cache()
    from warmgraph.cache import Entry, Role

    with cache.flight(key_of(1)) as flight:
        assert flight.token > ahead
        cache.publish(Entry(key_of(1), "v0", {}, None, {}, ()), [(Role.AOT_RESULT, "r", b"x")], flight)
    assert cache.flush()
    assert generation_of(fleet.sealed(1)) < ahead


@pytest.mark.parametrize("how", ["a lease without a TTL", "always held"])
def test_waiting_has_one_budget(fleet: Fleet, how: str) -> None:
    """Fifty graphs, each held by somebody who never gives back, wait WARMGRAPH_WAIT in all."""
    from warmgraph.cache.tiers.flight import Flights

    if how == "a lease without a TTL":
        for number in range(50):
            fleet.raw.set(f"wg:default:{{{key_of(number)}}}:lease", '1 {"host":"h","pid":1,"rank":null}')
        cache = fleet.host(wait=2).cache()
        for number in range(50):
            with cache.flight(key_of(number)) as flight:
                assert flight.token > 0, "nobody's: ours all have an end"
                flight.settle(ok=True)
        return
    now = [0.0]

    class Level:
        name, seconds = "redis", 10.0

        def acquire(self, key: str, *, waits: bool = False) -> Held:
            return Held("somebody")

        def peek(self, key: str) -> Held:
            return Held("somebody")

    def sleep(seconds: float) -> None:
        now[0] += seconds

    flights = Flights([Level()], wait=300.0, clock=lambda: now[0], sleep=sleep)  # type: ignore[list-item]
    for number in range(50):
        with flights.flight(key_of(number)):
            pass
    assert 300 <= now[0] < 301


@pytest.mark.exhaustive
def test_a_thousand_keys_with_a_hundred_poisoned(fleet: Fleet) -> None:
    """In every way above: the other 900 hit, with as many requests and bytes as without."""
    fleet.host().publish(*range(1000))
    good = [number for number in range(1000) if number % 10]

    def cost() -> tuple[int, int]:
        before = fleet.raw.info("stats")
        host = fleet.host()
        assert host.hits(*good) == good
        after = fleet.raw.info("stats")
        names = ("total_commands_processed", "total_net_output_bytes")
        return tuple(int(after[name]) - int(before[name]) for name in names)  # type: ignore[return-value]

    commands, sent = cost()
    ways = [*ENTRIES[:3], generation, strangers]
    for number in range(0, 1000, 10):
        ways[number // 10 % len(ways)](fleet, fleet.entries(number))
        wrong_type(fleet, f"wg:default:{{{key_of(number)}}}:lease")
        wrong_type(fleet, f"wg:default:{{{key_of(number)}}}:fence")
    again, sent_again = cost()
    assert again <= commands * 1.05
    assert sent_again <= sent * 1.05
    assert fleet.host().hits(*range(1000)) == good
