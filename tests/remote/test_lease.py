"""Leases: one owner at a time, over crashes, restarts, stalls and outages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from warmgraph.cache import StoreUnavailable
from warmgraph.cache.stores.redis import RedisLease
from warmgraph.cache.typing import Held, Lease, Leases

from .leases import FENCE, KEY, VALUE, give, is_free, take, wait_for_beats


def test_one_owner(fleet: Any) -> None:
    """Whoever comes second learns who was first."""
    one: Leases = fleet(rank=3)
    two = fleet()
    assert two.peek(KEY) is None
    lease: Lease = one.acquire(KEY)  # type: ignore[assignment]
    held = Held(f"rank 3 (pid {os.getpid()} on {os.uname().nodename[:64]})")
    assert two.acquire(KEY) == two.peek(KEY) == held
    give(lease)
    assert is_free(two)
    later = take(two)
    assert later.token > lease.token > 1.6e15
    give(lease, ok=False)
    assert not is_free(one)
    give(later)
    give(later, ok=False)
    assert is_free(one)


def test_exactly_one_of_many(fleet: Any) -> None:
    """Sixteen threads with connections of their own."""
    results: list[object] = []
    together = threading.Barrier(16)

    def work() -> None:
        leases = fleet()
        leases.peek(KEY)
        together.wait(30)
        results.append(leases.acquire(KEY))

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 16
    [won] = [one for one in results if isinstance(one, RedisLease)]
    give(won)


def test_the_heartbeat_keeps_it(fleet: Any, server: Any, make: Any) -> None:
    """Past its seconds, for as long as it is wanted; and its thread ends with it."""
    one, two = fleet(), fleet()
    lease = take(one)
    wait_for_beats(server, make.servers)
    assert not is_free(two)
    assert not lease.lost
    give(lease)
    assert lease.lost
    make.servers.wait_for(
        lambda: "warmgraph-lease" not in [thread.name for thread in threading.enumerate()], "the thread lives on"
    )


def test_a_dead_owner_is_taken_over(server: Any, fleet: Any, make: Any) -> None:
    """kill -9: free within its seconds."""
    program = (
        "import sys, time; from warmgraph.cache.stores.redis import *\n"
        "from warmgraph.cache.format.seal import accept_checksum\n"
        "store = RedisStore(parse_url(sys.argv[1]), namespace='tests', ttl=9)\n"
        "lease = RedisLeases(store.clients, namespace='tests', seconds=5.0, beat=0.2).acquire(sys.argv[2])\n"
        "print(lease.token, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", program, server.patient_url, KEY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        token = int(owner.stdout.readline())
        leases = fleet()
        wait_for_beats(server, make.servers, 4000)
        assert not is_free(leases)
        owner.send_signal(signal.SIGKILL)
    assert server.raw.pttl(VALUE) <= 5000
    server.raw.pexpire(VALUE, 300)  # most of its seconds later
    make.servers.wait_for(lambda: is_free(leases), "it is not free")
    lease = take(leases)
    assert lease.token > token
    give(lease)


def test_failure_is_told(fleet: Any, server: Any) -> None:
    """All who wait learn at once that there is nothing to wait for; soon it can be tried again."""
    one, two = fleet(), fleet()
    give(take(one), ok=False)
    for found in (two.acquire(KEY), two.peek(KEY)):
        assert isinstance(found, Held)
        assert found.failed
    assert 0 < server.raw.pttl(VALUE) <= 5000


def test_a_restarted_server_learns_of_it_again(own_server: Any, fleet: Any, make: Any) -> None:
    """It forgot everything; the owner still owns."""
    one, two = fleet(own_server.url, seconds=1.0), fleet(own_server.url)
    lease = take(one)
    own_server.stop()
    time.sleep(1.2)
    own_server.start()
    make.servers.wait_for(lambda: not is_free(two), "it is not set again")
    assert not lease.lost
    assert int(own_server.raw.get(FENCE)) == lease.token
    give(lease)
    assert is_free(two)


def test_a_server_that_forgot_gives_the_owner_time(fleet: Any, server: Any, make: Any) -> None:
    """Restarted between two looks of a waiter: it sees that the token it knew is gone, and does not take the lease."""
    owner, waiter, newcomer = fleet(), fleet(), fleet()
    key = make.key_of(3)
    lease = owner.acquire(key)
    assert isinstance(waiter.acquire(key), Held)
    server.raw.flushall()
    assert isinstance(waiter.acquire(key), Held)
    make.servers.wait_for(lambda: server.raw.exists(f"wg:tests:{{{key}}}:lease"), "the heartbeat did not bring it back")
    assert isinstance(newcomer.acquire(key), Held)
    give(lease)
    taken = waiter.acquire(key)
    assert not isinstance(taken, Held), "given back is given back"
    give(taken)


def test_a_forgotten_owner_who_is_dead_is_taken_over(fleet: Any, server: Any, make: Any) -> None:
    """Nobody brings the lease back: a third of its time later it can be had."""
    waiter = fleet(seconds=0.6)
    key = make.key_of(4)
    server.raw.set(f"wg:tests:{{{key}}}:lease", b'5 {"host": "h", "pid": 1, "rank": null}', px=60_000)
    assert isinstance(waiter.acquire(key), Held)
    server.raw.flushall()
    assert isinstance(waiter.acquire(key), Held)
    taken: list[Any] = []
    make.servers.wait_for(lambda: taken.append(waiter.acquire(key)) or waiter._held, "it is never given out again")
    give(taken[-1])


def test_what_was_lost_is_not_taken_again(fleet: Any, server: Any) -> None:
    """Someone else has it, or had it since."""
    for after in ("held", "given back"):
        server.raw.flushall()
        one, two = fleet(beat=1000.0), fleet()
        lease = take(one)
        server.raw.delete(VALUE)
        other = take(two)
        if after == "given back":
            give(other)
        one._prolong(lease)
        assert lease.lost
        give(lease)
        assert is_free(two) == (after == "given back")
        give(other)


def test_outages_are_survived(proxy: Any, fleet: Any, make: Any) -> None:
    """Heartbeats go on once the server answers again."""
    one, two = fleet(f"redis://127.0.0.1:{proxy.port}", seconds=1.0), fleet()
    lease = take(one)
    one._clients.deadline = 0.15
    for mode in ("silent", "refuse", "error", "garbage"):
        proxy.mode = make.Mode(mode)
        time.sleep(1.3)
        proxy.mode = make.Mode.PASS
        make.servers.wait_for(lambda: not is_free(two), f"it was not renewed after {mode}")
    assert not lease.lost
    proxy.mode = make.Mode.SILENT
    begin = time.monotonic()
    give(lease)
    assert time.monotonic() - begin < 10
    make.servers.wait_for(lambda: is_free(two), "it does not expire")


def test_a_lost_answer_leaves_no_owner(proxy: Any, fleet: Any, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease was given and nobody knows: it is given back, long before it expires."""
    one, two = fleet(f"redis://127.0.0.1:{proxy.port}", seconds=60.0), fleet()
    give(take(one))  # from here on the server knows the scripts
    proxy.cut_after, proxy.mode = 1, make.Mode.CUT
    jobs: list[Any] = []
    with monkeypatch.context() as patch, pytest.raises(StoreUnavailable):
        patch.setattr(one._background, "submit", jobs.append)  # while answers are cut, this one might be, too
        one.acquire(KEY)
    proxy.mode = make.Mode.PASS
    [give_it_back] = jobs
    assert not is_free(two)
    give_it_back()
    make.servers.wait_for(lambda: is_free(two), "it is not given back")


def test_a_lease_given_back_under_way_stays_free(fleet: Any, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A heartbeat that was on its way meanwhile finds it gone, and must not bring it back."""
    one = fleet(beat=1000.0)
    lease = take(one)
    give(lease)
    one._prolong(lease)
    assert is_free(one)


def test_a_child_holds_nothing(fleet: Any, server: Any, make: Any) -> None:
    """Releasing in a forked child gives back nothing of its parent's."""
    one = fleet()
    lease = take(one)
    child = os.fork()
    if child == 0:
        try:
            give(lease)
        finally:  # whatever happens, the child must not go on with the tests
            os._exit(0 if lease.lost else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not is_free(one)
    wait_for_beats(server, make.servers)
    give(lease)


@pytest.mark.parametrize(
    "value",
    [
        b"1 \x1b[31m\xff\n" + b"x" * 500,
        b"1 " + json.dumps({"rank": "\r\n", "pid": ["x" * 900], "host": None}).encode(),
        b"1 " + b"[" * 1000,
        b"1 []",
        b"1 7",
        b"1",
        b"\xff\xff",
    ],
)
def test_owners_are_anyones_text(fleet: Any, server: Any, value: bytes) -> None:
    """Whatever stands there: one short printable line."""
    server.raw.set(VALUE, value, px=60_000)
    for held in (fleet().peek(KEY), fleet().acquire(KEY)):
        assert isinstance(held, Held)
        assert held.owner.isprintable()
        assert 0 < len(held.owner) <= 100
        assert not held.failed


def test_tokens_grow_when_the_clock_does_not(fleet: Any, server: Any) -> None:
    """A server whose clock was set back; a fence that makes no sense, or that no clock explains, is none."""
    ahead = int(time.time() * 1e6) + 3600 * 10**6
    server.raw.set(FENCE, ahead)
    lease = take(fleet())
    assert lease.token == ahead + 1
    give(lease)
    for nonsense in ("nonsense", "9000000000000000", str(2**64), "1" * 30, b"1" * 10_000):
        server.raw.set(FENCE, nonsense)
        lease = take(fleet())
        assert 1.6e15 < lease.token < ahead
        give(lease)
    server.raw.delete(FENCE)
    server.raw.lpush(FENCE, "a list")
    lease = take(fleet())
    assert 1.6e15 < lease.token < ahead
    give(lease)


def test_malformed_keys(fleet: Any) -> None:
    """Refused before anything is sent."""
    for work in (fleet().acquire, fleet().peek):
        with pytest.raises(ValueError, match="not a key"):
            work("wg1}")
