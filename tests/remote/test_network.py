"""Round trips, deadlines and faults, through a proxy that fails on purpose."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from warmgraph.cache import CorruptEntry, StoreUnavailable
from warmgraph.cache.stores.redis import RedisLeases, RedisStore, client
from warmgraph.cache.typing import StoreSilent

# Far above any deadline of ours on a busy machine, far below any that the system or redis-py would set.
GENEROUS = 20.0
_NUMBERS = itertools.count(1000)  # a lease that was given, and the answer lost, is held for a while


def every_method(store: RedisStore, make: Any) -> dict[str, Callable[[], object]]:
    """Each method that asks the server, by name."""
    data = os.urandom(1000)
    ref, key = make.ref_of(data), make.key_of(1)
    leases = RedisLeases(store.clients, namespace="tests")
    return {
        "entries": lambda: list(store.entries(key)),
        "blob": lambda: store.blob(ref),
        "blobs": lambda: store.blobs([ref, make.ref_of(b"other")]),
        "has_blob": lambda: store.has_blob(ref),
        "probe": lambda: store.probe("read"),
        "put_blob": lambda: store.put_blob(ref, data),
        "put_entry": lambda: store.put_entry(key, "v0", b"sealed"),
        "quarantine": lambda: store.quarantine(key, "v0", "why"),
        "drop_blob": lambda: store.drop_blob(ref),
        "probe write": lambda: store.probe("write"),
        "acquire": lambda: leases.acquire(make.key_of(next(_NUMBERS))).release(ok=True),  # type: ignore[union-attr]
        "peek": lambda: leases.peek(key),
    }


SILENCES = ("refuse", "silent", "drip", "cut")  # nobody answers: what was asked may have happened
READS = ("entries", "blob", "blobs", "has_blob", "probe", "peek")
WRITES = ("put_blob", "put_entry", "quarantine", "drop_blob", "probe write", "acquire")


def test_a_hit_is_two_round_trips(proxy: Any, through_proxy: Any, make: Any, random_blob: Any) -> None:
    """On open connections: the manifest, then all pieces of all blobs. Without a password, connecting costs none."""
    blobs = [random_blob(size) for size in (10, 3 * 2**20, 2**20, 0)]
    writer = through_proxy(timeout=10)
    for ref, data in blobs:
        writer.put_blob(ref, data)
    writer.put_entry(make.key_of(1), "v0", b"sealed")
    for store in (writer, through_proxy(timeout=10)):
        proxy.reset()
        assert list(store.entries(make.key_of(1))) == [("v0", b"sealed")]
        assert store.blobs([ref for ref, _ in blobs]) == {ref.digest: data for ref, data in blobs}
        assert proxy.turns == 2
        assert proxy.commands == [b"GETRANGE", b"STRLEN", b"GETRANGE", *[b"GETRANGE"] * 5]


def test_publishing_puts_blobs_before_the_entry(proxy: Any, through_proxy: Any, make: Any, random_blob: Any) -> None:
    """The entry in one step, by a script that is sent once."""
    ref, data = random_blob(20 * 2**20)
    store = through_proxy(timeout=10)
    for _ in range(2):
        proxy.reset()
        store.put_blob(ref, data)
        assert proxy.commands == [b"SET"] * 20
        store.put_entry(make.key_of(1), "v0", b"sealed")
        assert proxy.commands[20:] in ([b"EVALSHA", b"EVAL"], [b"EVALSHA"])
    assert proxy.commands[20:] == [b"EVALSHA"]


def test_warming_up_connects(proxy: Any, through_proxy: Any, make: Any) -> None:
    """So that the first lookup finds both connections."""
    store = through_proxy(timeout=10)
    store.warm_up()
    make.servers.wait_for(lambda: proxy.connections == 2, "no connections")
    make.servers.wait_for_revocations()  # who asks for them has one of the connections meanwhile
    store.probe("read")
    store.probe("write")
    assert proxy.connections == 2


@pytest.mark.parametrize("when", ["from the start", "later"])
@pytest.mark.parametrize(
    ("mode", "settings", "says"),
    [
        ("refuse", {}, "refused"),
        ("silent", {}, "no answer (in time|within)"),
        ("drip", {}, "no answer (in time|within)"),
        ("cut", {"cut_after": 0}, "closed"),
        ("error", {"error": b"-LOADING Redis is loading the dataset in memory\r\n"}, "loading"),
        ("error", {"error": b"-NOAUTH Authentication required.\r\n"}, "asks for a password"),
        ("error", {"error": b"-MOVED 1 127.0.0.1:1\r\n"}, r"redis\+cluster://"),
        ("error", {"error": b"-CLUSTERDOWN Hash slot not served\r\n"}, "cluster is down"),
        ("error", {"error": b"-ERR max number of clients reached\r\n"}, "maxclients"),
        ("error", {"error": b"-NOPERM this user has no permissions\r\n"}, "users.acl"),
        ("error", {"error": b"-ERR \x1b[31mwhat\r\n"}, r"something failed \(\?\[31mwhat\)"),
        ("garbage", {}, "no Redis|not a Redis"),
        ("garbage", {"garbage": b"*1\r\n" * 5000}, "not a Redis|no answer"),
        ("garbage", {"garbage": b"$x\r\n"}, "not a Redis"),
        ("garbage", {"garbage": b"+\xff\xff\r\n" * 9}, "not a Redis|not a sealed|another digest"),
        ("garbage", {"garbage": b":1\r\n" * 9}, None),
    ],
)
def test_whatever_the_network_does(
    proxy: Any, through_proxy: Any, make: Any, mode: str, settings: Any, says: str | None, when: str
) -> None:
    """Each method raises StoreUnavailable that says so, within its bound; and works again afterwards."""
    store = through_proxy(timeout=10)
    if when == "later":
        store.probe("read")
        store.probe("write")
    for name, value in settings.items():
        setattr(proxy, name, value)
    proxy.mode = make.Mode(mode)
    if "no answer" in (says or ""):
        store.clients.deadline = 0.15
    for name, work in every_method(store, make).items():
        begin = time.monotonic()
        if proxy.garbage[:1] in b":+" and name in ("has_blob", "quarantine", "drop_blob", "put_entry", "peek"):
            continue  # a number, or a text, is a proper answer to these
        with pytest.raises((StoreUnavailable, CorruptEntry), match=says) as caught:
            work()
        assert time.monotonic() - begin < GENEROUS, name
        if mode in SILENCES or b"LOADING" in settings.get("error", b""):
            assert type(caught.value) is StoreSilent, name
        elif mode == "error":
            assert not isinstance(caught.value, StoreSilent), name
    proxy.mode, store.clients.deadline = make.Mode.PASS, 10
    proxy.drop()
    for name, work in every_method(store, make).items():
        patiently(work, name)


def patiently(work: Callable[[], object], name: str) -> None:
    """A connection attempt of before may still be under way for a moment."""
    for _ in range(20):
        try:
            work()
            return
        except StoreUnavailable as error:
            last = error
            time.sleep(0.2)
    raise AssertionError(name) from last


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (b"-OOM command not allowed when used memory > 'maxmemory'.\r\n", "allkeys-lru, see deploy/redis.conf"),
        (b"-READONLY You can't write against a read only replica.\r\n", "primary's address"),
        (b"-NOPERM User r has no permissions to run the 'set' command\r\n", "WARMGRAPH_URL_MODE=readonly"),
        (b"-MISCONF Redis is configured to save RDB snapshots\r\n", "deploy/redis.conf"),
        (b"-NOREPLICAS Not enough good replicas to write.\r\n", "min-replicas"),
        (b"-ERR Error running script (call to f_1): @user_script:3: -READONLY You can't\r\n", "primary's address"),
    ],
)
def test_a_server_that_takes_no_writes(proxy: Any, through_proxy: Any, make: Any, error: bytes, says: str) -> None:
    """Writes fail and say why; reads go on."""
    store = through_proxy(timeout=10)
    proxy.error, proxy.mode = error, make.Mode.WRITE_ERROR
    methods = every_method(store, make)
    for name in WRITES:
        with pytest.raises(StoreUnavailable, match=says) as caught:
            methods[name]()
        assert not isinstance(caught.value, StoreSilent), "it answered"
    for name in READS:
        methods[name]()


@pytest.mark.parametrize("after", [1, 5, 1000, 2**20 + 5000, 2 * 2**20])
def test_cut_within_a_value(proxy: Any, through_proxy: Any, make: Any, random_blob: Any, after: int) -> None:
    """Half an answer is none; the next one, on a new connection, is whole."""
    ref, data = random_blob(3 * 2**20)
    store = through_proxy(timeout=10)
    store.put_blob(ref, data)
    proxy.cut_after, proxy.mode = after, make.Mode.CUT
    with pytest.raises(StoreUnavailable, match="closed"):
        store.blob(ref)
    proxy.mode = make.Mode.PASS
    assert store.blob(ref) == data


def test_a_connection_that_was_idle_for_long_is_not_tried(
    proxy: Any, through_proxy: Any, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A firewall may have forgotten it without a word, and whoever asks over it waits in vain."""
    store = through_proxy(timeout=10)
    assert list(store.entries(make.key_of(1))) == []
    before = proxy.connections
    assert list(store.entries(make.key_of(1))) == []
    assert proxy.connections == before
    monkeypatch.setattr(client, "_IDLE_SECONDS", 0.0)
    assert list(store.entries(make.key_of(1))) == []
    assert proxy.connections == before + 1


def test_a_closed_connection_is_not_noticed(proxy: Any, through_proxy: Any, make: Any) -> None:
    """A server that was restarted, or a firewall that forgot: the next call connects anew."""
    store = through_proxy(timeout=10)
    methods = every_method(store, make)
    for _ in range(3):
        for work in methods.values():
            work()
        proxy.drop()


def test_the_thread_of_a_late_call_ends(proxy: Any, through_proxy: Any, make: Any) -> None:
    """Its connection is cut, though the server drips on."""
    store = through_proxy(timeout=10)
    store.probe("read")
    proxy.mode, store.clients.deadline = make.Mode.DRIP, 0.15
    with pytest.raises(StoreUnavailable):
        list(store.entries(make.key_of(1)))
    make.servers.wait_for(
        lambda: not [one for one in threading.enumerate() if one.name.startswith("warmgraph-remote")],
        "a thread hangs on",
    )


def test_touching_waits_for_nothing(proxy: Any, through_proxy: Any, make: Any, random_blob: Any) -> None:
    """Nor does it tell anyone that it failed."""
    store = through_proxy()
    proxy.mode = make.Mode.SILENT
    for attempt in range(3):  # this process may be held up once
        begin = time.monotonic()
        for number in range(100):
            store.touch(make.key_of(100 * attempt + number), "v0", [random_blob(10)[0]])
        took = time.monotonic() - begin
        if took < 0.5:
            break
    assert took < 0.5
    assert store.flush_touches(10)


def test_a_refused_touch_is_not_tried_again(proxy: Any, through_proxy: Any, make: Any) -> None:
    """A reader's process asks once."""
    store = through_proxy(timeout=10)
    proxy.error, proxy.mode = b"-NOPERM no\r\n", make.Mode.WRITE_ERROR
    for number in range(3):
        store.touch(make.key_of(number), "v0")
        assert store.flush_touches(20)
    assert proxy.commands == [b"EXPIRE"]


def test_small_requests_pass_a_large_one(proxy: Any, through_proxy: Any, make: Any, random_blob: Any) -> None:
    """They have connections of their own."""
    ref, data = random_blob(8 * 2**20)
    store = through_proxy(timeout=20)
    store.put_blob(ref, data)
    store.probe("read")
    proxy.mode = make.Mode.DRIP

    def fetch() -> None:
        with contextlib.suppress(StoreUnavailable):
            store.blob(ref)

    fetching = threading.Thread(target=fetch)
    fetching.start()
    make.servers.wait_for(lambda: proxy.commands[-8:] == [b"GETRANGE"] * 8, "not asked for")
    proxy.mode = make.Mode.PASS
    store.probe("read")
    assert fetching.is_alive()
    proxy.drop()
    fetching.join()


def test_a_slow_start_is_used_in_the_end(server: Any, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """When connecting takes longer than a lookup may, the lookup goes without, and a later one has it."""
    resolve, resolved = socket.getaddrinfo, threading.Event()

    def slowly(*arguments: Any, **options: Any) -> Any:
        resolved.wait(30)
        return resolve(*arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slowly)
    store = make.open_store(server.url)
    store.clients.deadline = 0.15
    with pytest.raises(StoreUnavailable, match="no answer within"):
        store.probe("read")
    assert store.connecting()
    resolved.set()
    make.servers.wait_for(lambda: not store.connecting(), "it never connects")
    store.clients.deadline = 10
    store.probe("read")


def test_without_threads(server: Any, make: Any, monkeypatch: pytest.MonkeyPatch, random_blob: Any) -> None:
    """At interpreter shutdown no thread starts: what is written in the background still is, lookups go without."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    ref, data = random_blob(2000)
    store = make.open_store(server.url)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(StoreUnavailable, match="no thread can be had"):
            store.blob(ref)
        store.put_blob(ref, data)
        store.put_entry(make.key_of(1), "v0", b"sealed")
    assert store.blob(ref) == data


def test_secrets_are_not_in_messages(server: Any, make: Any) -> None:
    """Not even when the server repeats them."""
    url = f"redis://someone:hunter2@127.0.0.1:{server.port}/0"
    with pytest.raises(StoreUnavailable, match="user name or password") as caught:
        make.open_store(url).probe("read")
    assert "hunter2" not in str(caught.value)


def test_secrets_are_not_in_tracebacks(proxy: Any, make: Any) -> None:
    """What the server said itself is not carried along, as cause or as context; nor is a colon that was forgotten."""
    proxy.mode = make.Mode.ERROR
    for user in ("me:hunter2", "hunter2"):
        proxy.error = b"-ERR unknown command 'AUTH', with args beginning with: 'me' 'hunter2'\r\n"
        store = make.open_store(f"redis://{user}@127.0.0.1:{proxy.port}/0")
        with pytest.raises(StoreUnavailable, match="args beginning with") as caught:
            store.probe("read")
        assert "hunter2" not in "".join(traceback.format_exception(caught.value))
        assert caught.value.__cause__ is caught.value.__context__ is None


def test_a_name_that_does_not_resolve_may_soon(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is silence, not an answer."""

    def fail(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(StoreSilent, match="does not resolve"):
        make.open_store("redis://cache.invalid").probe("read")


@pytest.mark.parametrize("mode", ["silent", "drip"])
def test_silence_is_not_waited_for_by_the_megabyte(
    proxy: Any, through_proxy: Any, make: Any, random_blob: Any, mode: str
) -> None:
    """A large blob may take long only while something comes."""
    ref, data = random_blob(20 * 2**20)
    store = through_proxy(timeout=10)
    store.put_blob(ref, data)
    store.clients.deadline = 0.15
    for _ in range(2):  # on an open connection, and on none
        proxy.mode = make.Mode(mode)
        begin = time.monotonic()
        with pytest.raises(StoreSilent):
            store.blob(ref)
        assert time.monotonic() - begin < 4
        proxy.drop()
    proxy.mode, store.clients.deadline = make.Mode.PASS, 10
    patiently(lambda: store.blob(ref), "blob")


def test_a_write_after_a_blob_has_its_own_patience(proxy: Any, through_proxy: Any, random_blob: Any) -> None:
    """What a read sets on a connection does not stay there."""
    ref, data = random_blob(100)
    store = through_proxy(timeout=10)
    store.put_blob(ref, data)
    store.clients.deadline = 5
    store.blob(ref)
    [connection] = store.clients.large._redis.connection_pool._available_connections
    assert connection._sock.gettimeout() == 5
    store.put_blob(ref, data)
    assert connection._sock.gettimeout() == 10


def test_a_database_that_is_not_there(server: Any, make: Any) -> None:
    """And a server that is no cluster."""
    with pytest.raises(StoreUnavailable, match="no database of this number"):
        make.open_store(f"redis://127.0.0.1:{server.port}/9999").probe("read")
    with pytest.raises(StoreUnavailable, match="not part of a cluster"):
        make.open_store(f"redis+cluster://127.0.0.1:{server.port}").probe("read")
