"""The fleet's journal in Redis: sent once, capped, waited for by nobody; hostile values are passed by."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from warmgraph.cache import (
    Event,
    Journal,
    Outcome,
    StoreSilent,
    StoreUnavailable,
    configure,
    decode_event,
    open_journaled,
    open_remote,
)
from warmgraph.cache.stores.redis import EventStream, StreamTail
from warmgraph.cache.stores.redis import stream as streams

NAME = "wg:tests:events"


def stream_of(store: Any, **changes: Any) -> EventStream:
    return EventStream(store.clients, **({"namespace": "tests", "ttl": 3600.0} | changes))


def send(stream: EventStream, count: int, first: int = 0) -> None:
    journal = Journal(None, send=stream.append)
    for number in range(first, first + count):
        journal.append(Event(Outcome.HIT, nodes=number, parts={"graph": "a" * 64}))


def nodes_in(tail: StreamTail) -> list[int | None]:
    """The number of nodes of each event; None for what is no event."""
    found = []
    for _, line in tail.new():
        event = None if line is None else decode_event(line)
        found.append(None if event is None else event["nodes"])
    return found


def test_what_is_sent_is_read_in_order(store: Any, server: Any) -> None:
    """Every event arrives once, oldest first, with its parts cut short; the stream expires when nobody adds to it."""
    stream = stream_of(store)
    send(stream, 600)
    assert stream.flush(20)
    tail = store.tail()
    lines = list(tail.new())
    events = [decode_event(line) for _, line in lines]
    assert [event["nodes"] for event in events] == list(range(600))
    assert events[0]["parts"] == {"graph": "a" * 16}
    assert [where for where, _ in lines] == sorted(where for where, _ in lines)
    assert 3590 <= server.raw.ttl(NAME) <= 3600
    assert stream.lost == 0


def test_a_second_look_has_only_what_is_new(store: Any) -> None:
    """A tail gives each event once, also across pages."""
    stream, tail = stream_of(store), store.tail()
    assert nodes_in(tail) == []
    for first in (0, 5):
        send(stream, 5, first)
        assert stream.flush(20)
        assert nodes_in(tail) == list(range(first, first + 5))
    assert nodes_in(tail) == []


def test_it_is_read_page_by_page(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of several pages is read whole, and none twice."""
    monkeypatch.setattr(streams, "_PAGE", 10)
    stream = stream_of(store)
    send(stream, 45)
    assert stream.flush(20)
    assert nodes_in(store.tail()) == list(range(45))


def test_the_stream_is_capped(store: Any, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest events go once there are too many."""
    monkeypatch.setattr(streams, "MAX_EVENTS", 200)
    stream = stream_of(store)
    send(stream, 1000)
    assert stream.flush(20)
    assert 200 <= server.raw.xlen(NAME) <= 400  # the server cuts whole nodes of a hundred
    assert nodes_in(store.tail())[-1] == 999


def test_since_passes_by_what_is_old(store: Any, server: Any) -> None:
    """What came long before a moment is not read; a clock that is off by minutes hides nothing."""
    now = int(time.time() * 1000)
    for hours in (48, 3, 0):
        server.raw.xadd(NAME, {"e": b"x"}, id=f"{now - hours * 3_600_000}-0")
    assert len(list(store.tail(time.time() - 7200 - 60).new())) == 2
    assert len(list(store.tail(time.time() - 1800).new())) == 1


HOSTILE = {
    "no event": {"e": b"<script>"},
    "another field": {"x": b"1"},
    "more fields": {"e": b"1", "f": b"2"},
    "bytes": {"e": b"\xff\x00\x1b[2J"},
    "large": {"e": b"9" * 2**21},
}


@pytest.mark.parametrize("fields", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_others_put_there_is_passed_by(store: Any, server: Any, fields: dict[str, bytes]) -> None:
    """Between good events anything may stand: it is no event, and hides none."""
    stream = stream_of(store)
    send(stream, 1)
    assert stream.flush(20)
    server.raw.xadd(NAME, fields)
    send(stream, 1, 1)
    assert stream.flush(20)
    assert nodes_in(store.tail()) == [0, None, 1]


def test_the_last_possible_id_ends_nothing(store: Any, server: Any) -> None:
    """Someone who uses up the ids: the stream begins anew with the next events."""
    server.raw.xadd(NAME, {"e": b"x"}, id=f"{2**64 - 1}-{2**64 - 1}")
    stream = stream_of(store)
    send(stream, 3)
    assert stream.flush(20)
    assert stream.lost == 0
    tail = store.tail()
    assert nodes_in(tail) == [0, 1, 2]
    assert nodes_in(tail) == []


def test_a_key_of_another_type_is_written_over(store: Any, server: Any) -> None:
    """Reading what is no stream finds no events; the next ones take its place."""
    server.raw.set(NAME, b"x")
    assert list(store.tail().new()) == []
    stream = stream_of(store)
    send(stream, 3)
    assert stream.flush(20)
    assert stream.lost == 0
    assert nodes_in(store.tail()) == [0, 1, 2]


def test_a_silent_server_holds_up_nobody(proxy: Any, through_proxy: Any, make: Any) -> None:
    """Sending returns at once; what got no answer is lost and counted, and the tier is told."""
    told: list[StoreUnavailable] = []
    store = through_proxy(timeout=10)
    stream = stream_of(store, failed=told.append)
    send(stream, 1)
    assert stream.flush(20)
    proxy.mode, store.clients.deadline = make.Mode.SILENT, 0.15
    for _ in range(3):  # this process may be held up once
        begin = time.perf_counter()
        send(stream, 200)
        took = time.perf_counter() - begin
        if took < 1.0:
            break
    assert took < 1.0, "the deadline of one request"
    assert stream.flush(30)
    assert 1 <= stream.lost <= 600
    assert isinstance(told[0], StoreSilent)


def test_what_waits_is_sent_when_the_tier_is_well_again(store: Any) -> None:
    """While the tier is sick events wait, so many; then they are sent with the next."""
    well = False
    stream = stream_of(store, usable=lambda: well)
    send(stream, streams._WAITING + 10)
    assert stream.flush(20)
    assert (nodes_in(store.tail()), stream.lost) == ([], 10)
    well = True
    stream._lose(-10)
    send(stream, 1, 5000)  # finds the queue full, as those before
    assert stream.flush(20)
    stream._writer.submit(stream._send)
    assert stream.flush(20)
    assert nodes_in(store.tail()) == list(range(streams._WAITING))


def test_without_the_right_to_write_nothing_is_sick(server: Any, make: Any) -> None:
    """A user with the rights of an older users.acl is refused once, and his tier stays well."""
    rights = ["-@all", "+get", "+set", "+expire", "+select"]
    server.raw.execute_command("ACL", "SETUSER", "old", "on", ">old", "~*", *rights)
    told: list[StoreUnavailable] = []
    stream = stream_of(make.open_store(f"redis://old:old@127.0.0.1:{server.port}/0"), failed=told.append)
    for _ in range(3):
        send(stream, 1)
        assert stream.flush(20)
    assert (stream.lost, told) == (3, [])
    assert stream._refused > time.monotonic()


def test_a_refusal_does_not_last(server: Any, make: Any) -> None:
    """A server that was a read-only replica for the length of a failover gets the later events."""
    server.raw.execute_command("ACL", "SETUSER", "late", "on", ">late", "~*", "-@all", "+expire", "+select")
    stream = stream_of(make.open_store(f"redis://late:late@127.0.0.1:{server.port}/0"))
    send(stream, 1)
    assert stream.flush(20)
    server.raw.execute_command("ACL", "SETUSER", "late", "+xadd")
    send(stream, 1)
    assert stream.lost == 2, "not asked again at once"
    stream._refused -= streams._REFUSED_SECONDS  # that much later
    send(stream, 1, 7)
    assert stream.flush(20)
    assert (stream.lost, nodes_in(make.open_store(server.url).tail())) == (2, [7])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_sends_its_own(store: Any) -> None:
    """What waits in the parent is the parent's to send; what the child adds arrives too."""
    well = False
    stream = stream_of(store, usable=lambda: well)
    send(stream, 1)
    assert stream.flush(20)
    pid = os.fork()
    if pid == 0:
        well = True
        send(stream, 1, 1)
        os._exit(0 if stream.flush(20) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert nodes_in(store.tail()) == [1]


def test_a_cluster_has_it_too(nodes: Any, make: Any) -> None:
    """On a cluster the stream is one key on one node."""
    store = make.open_store(f"redis+cluster://127.0.0.1:{nodes[0].port}")
    stream = stream_of(store)
    send(stream, 3)
    assert stream.flush(20)
    assert nodes_in(store.tail()) == [0, 1, 2]
    store.clients.large.run(lambda redis: redis.delete(NAME), 5, doing="clean up")


@pytest.fixture
def opened(server: Any, tmp_path: Path, make: Any) -> Callable[..., Any]:
    """Opens cache and journal as the backend does; gives also what the stream then holds."""
    patient = server.patient_url

    def open_it(url: str = "", **changes: Any) -> tuple[Any, Journal | None, Callable[[], list[dict[str, Any]]]]:
        settings = {"dir": tmp_path / "store", "url": url or patient, "trust": "network", "namespace": "tests"}
        current = configure(**(settings | changes))
        cache, journal = open_journaled(current)

        def streamed() -> list[dict[str, Any]]:
            remote = open_remote(configure(url=patient))
            assert remote is not None
            return [event for _, line in remote.tail().new() if line and (event := decode_event(line)) is not None]

        return cache, journal, streamed

    return open_it


def test_events_go_to_the_folder_and_to_the_stream(opened: Any, tmp_path: Path) -> None:
    """With a Redis each event is in both, with namespace and job."""
    from warmgraph.cache import flush, read

    _, journal, streamed = opened(job="42")
    journal.append(Event(Outcome.HIT, nodes=7))
    assert flush()
    for events in (streamed(), list(read(tmp_path / "store" / "ns" / "tests" / "journal"))):
        assert [(event["nodes"], event["namespace"], event["job"]) for event in events] == [(7, "tests", "42")]


@pytest.mark.parametrize("changes", [{"mode": "readonly"}, {"url_mode": "readonly"}])
def test_who_only_reads_sends_nothing(opened: Any, changes: dict[str, str]) -> None:
    """Neither in readonly mode nor with a server that is only read."""
    from warmgraph.cache import flush

    _, journal, streamed = opened(**changes)
    if journal is not None:
        journal.append(Event(Outcome.HIT))
    assert flush()
    assert streamed() == []
    assert (journal is None) == ("mode" in changes)


def test_an_outage_is_one_event(opened: Any, make: Any, proxy: Any, tmp_path: Path) -> None:
    """A server that falls silent is journaled once, however many lookups it then costs."""
    from warmgraph.cache import read

    cache, journal, _ = opened(f"redis://127.0.0.1:{proxy.port}/0?socket_timeout=10", wait=0)
    cache.lookup(make.key_of(1), lambda entry: True)
    assert cache.health() == {}
    proxy.mode, cache._tiers[-1].clients.deadline = make.Mode.SILENT, 0.15
    for number in range(3):
        cache.lookup(make.key_of(number), lambda entry: True)
    events = list(read(tmp_path / "store" / "ns" / "tests" / "journal"))
    assert [(event["outcome"], event["tier"]) for event in events] == [("sick", "redis")]
    assert "no answer within" in events[0]["detail"]
    assert journal is not None


def test_a_folder_that_cannot_be_used_is_told_in_the_stream(opened: Any, tmp_path: Path) -> None:
    """Where nothing can be journaled on disk, the fleet's journal has it, and the outage besides."""
    from warmgraph.cache import flush

    (tmp_path / "store").mkdir()
    (tmp_path / "store").chmod(0o777)
    _, journal, streamed = opened()
    journal.append(Event(Outcome.MISS, reason="absent"))
    assert flush()
    assert [(event["outcome"], event["tier"]) for event in streamed()] == [("sick", "disk"), ("miss", None)]
