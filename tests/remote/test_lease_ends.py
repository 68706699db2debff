"""Leases that end unasked, or unnoticed: by their entry, abandoned, expired, evicted, forgotten, asked for twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from warmgraph.cache import seal
from warmgraph.cache.stores.redis import lease as lease_module
from warmgraph.cache.typing import Held

from .leases import FENCE, KEY, VALUE, give, is_free, take


def entry(token: int, make: Any) -> bytes:
    return bytes(seal(KEY, b"manifest", make.ring.signer, token))


def test_giving_back_waits_for_nothing(proxy: Any, fleet: Any, make: Any) -> None:
    """However silent the server is: it is done in the background."""
    one, two = fleet(f"redis://127.0.0.1:{proxy.port}", seconds=1.0), fleet()
    lease = take(one)
    proxy.mode = make.Mode.SILENT
    begin = time.monotonic()
    lease.release(ok=True)
    assert time.monotonic() - begin < 5, "the deadline is 10"
    make.servers.wait_for(lambda: is_free(two), "it does not expire")


def test_an_abandoned_lease_asks_for_nothing(proxy: Any, fleet: Any, make: Any) -> None:
    """No heartbeat, no request; it expires, and giving it back afterwards is nothing."""
    one, two = fleet(f"redis://127.0.0.1:{proxy.port}", seconds=1.0), fleet()
    lease = take(one)
    lease.abandon()
    make.servers.wait_for(lambda: not one._beating, "the heartbeat does not end")
    proxy.reset()
    give(lease)
    assert lease.lost
    make.servers.wait_for(lambda: is_free(two), "it does not expire")
    assert proxy.commands == []


def test_a_repeated_request_finds_its_own_lease(fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """redis-py asks again when the connection was lost after the lease had been given."""
    one, two = fleet(), fleet()
    run = one._clients.small.run

    def twice(work: Callable[[Any], Any], *arguments: Any, **options: Any) -> Any:
        return run(lambda redis: (work(redis), work(redis))[1], *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(one._clients.small, "run", twice)
        lease = take(one)
    assert not is_free(two)
    give(lease)
    assert is_free(two)


def test_its_entry_ends_a_lease(fleet: Any, server: Any, store: Any, make: Any) -> None:
    """In one step: a request to give it back that is lost, or an owner that dies now, holds up nobody."""
    one, two = fleet(seconds=60.0, beat=0.2), fleet()
    lease = take(one)
    store.token_of = one.token_of
    store.put_entry(KEY, "v0", entry(lease.token, make))
    assert is_free(two)
    assert server.raw.get(FENCE) == b"%d done" % lease.token
    make.servers.wait_for(lambda: lease.lost, "the heartbeat does not end")
    assert is_free(two)
    give(lease, ok=False)
    assert is_free(two), "what is published did not fail"
    later = take(two)
    assert later.token > lease.token
    store.put_entry(KEY, "v0", entry(lease.token, make))
    assert not is_free(one), "an entry ends only its own lease"
    give(later)


def test_an_ended_lease_is_lost_quietly(fleet: Any, store: Any, make: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A heartbeat that comes after the entry says nothing of it."""
    one = fleet(beat=1000.0)
    lease = take(one)
    store.token_of = one.token_of
    store.put_entry(KEY, "v0", entry(lease.token, make))
    with caplog.at_level("INFO"):
        one._prolong(lease)
    assert lease.lost
    assert is_free(one)
    assert caplog.text == ""


def test_an_evicted_lease_is_not_taken_from_a_live_owner(fleet: Any, server: Any, make: Any) -> None:
    """It went before its time, and was not given back: its owner gets a third of its time to say so."""
    owner, waiter = fleet(beat=0.1), fleet()
    lease = take(owner)
    for _ in range(5):
        assert isinstance(waiter.acquire(KEY), Held)
        server.raw.delete(VALUE)
        assert isinstance(waiter.acquire(KEY), Held)
        make.servers.wait_for(lambda: server.raw.exists(VALUE), "the heartbeat did not bring it back")
    assert not lease.lost
    assert isinstance(waiter.acquire(KEY), Held)
    give(lease)
    taken = take(waiter)
    assert taken.token > lease.token, "what was given back is had at once"
    give(taken)


def test_an_evicted_lease_of_a_dead_owner_is_had_soon(fleet: Any, server: Any, make: Any) -> None:
    """A third of its time later."""
    owner, waiter = fleet(seconds=60.0, beat=1000.0), fleet(seconds=0.9)
    take(owner).abandon()
    assert isinstance(waiter.acquire(KEY), Held)
    server.raw.delete(VALUE)
    begin = time.monotonic()
    taken: list[Any] = []
    make.servers.wait_for(lambda: taken.append(waiter.acquire(KEY)) or waiter._held, "it is never given out again")
    assert time.monotonic() - begin > 0.2
    give(taken[-1])


def test_an_expired_lease_is_had_at_once(fleet: Any, server: Any) -> None:
    """Its owner is dead, and a waiter that saw it knows when it ends."""
    owner, waiter = fleet(seconds=60.0, beat=1000.0), fleet(seconds=60.0)
    begin = time.monotonic()
    take(owner).abandon()
    assert isinstance(waiter.acquire(KEY), Held)
    seen = waiter._seen[KEY]
    assert begin + 59.9 < seen.until < time.monotonic() + 60.1
    seen.until -= 60  # a minute later
    server.raw.delete(VALUE)
    give(take(waiter))


def test_a_newcomer_after_a_restart_gives_owners_time(own_server: Any, fleet: Any, make: Any) -> None:
    """It knew the server before, which has forgotten all leases: their owners bring theirs back first."""
    leases = fleet(own_server.url, seconds=120.0)
    leases.peek(KEY)
    leases._clients.small.since -= 100
    held = leases.acquire(KEY)
    assert isinstance(held, Held)
    assert "restarted" in held.owner
    stranger = fleet(own_server.url, seconds=120.0)
    give(take(stranger))
    give(take(leases))


@pytest.mark.parametrize("fence", [b"nonsense", b"", b"1 2", b"-5", b"1e400", b"9" * 30, b"7 done", b" done", b"\xff"])
def test_no_fence_breaks_a_script(fleet: Any, server: Any, store: Any, make: Any, fence: bytes) -> None:
    """Anyone may have written it."""
    server.raw.set(FENCE, fence)
    one = fleet()
    one._seen[KEY] = lease_module._Seen("12x", Held("x"), time.monotonic() + 9)
    lease = take(one)
    assert lease.token > 1.6e15
    server.raw.set(FENCE, fence)
    one._prolong(lease)
    store.put_entry(KEY, "v0", entry(lease.token, make))
    give(lease)
    assert [name for name, _ in store.entries(KEY)] == ["v0"]
