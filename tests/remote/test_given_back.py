"""Who waited for a compile is told that its result is there: all fetch it at once, and not one after another."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from warmgraph.cache import Held
from warmgraph.cache.stores.disk.locks import FileLeases
from warmgraph.cache.tiers.flight import Flights

KEY = f"wg1{'6b' * 32}"


@pytest.fixture(params=["disk", "redis"])
def level(request: pytest.FixtureRequest, tmp_path: Path, fleet: Any) -> Any:
    """Makes the leases of another process, of one reach."""
    return (lambda: FileLeases(tmp_path)) if request.param == "disk" else fleet


def test_who_waits_is_told(level: Any) -> None:
    """Of a result that was given back; not of a first try, nor of a compile that gave nothing."""
    owner, waiter = level(), level()
    lease = owner.acquire(KEY)
    assert not waiter.acquire(KEY).given_back
    lease.release(ok=True)
    if lease.token:
        assert owner.flush(20)
    assert waiter.acquire(KEY, waits=True).given_back
    again = waiter.acquire(KEY)
    assert not isinstance(again, Held), "nobody has it: who insists gets it"
    assert isinstance(owner.acquire(KEY), Held)
    again.release(ok=False)
    if lease.token:
        assert waiter.flush(20)
    failed = owner.acquire(KEY, waits=True)
    assert (failed.failed, failed.given_back) == (True, False)


def test_a_dead_owner_gave_nothing_back(fleet: Any, make: Any) -> None:
    owner, waiter = fleet(seconds=3.0), fleet(seconds=1.0)
    lease = owner.acquire(KEY)
    assert isinstance(waiter.acquire(KEY), Held)
    lease.abandon()
    taken: list[Any] = []

    def is_taken() -> bool:
        taken.append(waiter.acquire(KEY, waits=True))
        assert not getattr(taken[-1], "given_back", False)
        return not isinstance(taken[-1], Held)

    make.servers.wait_for(is_taken, "it is not taken over", seconds=60)


class Noting:
    """A level, and whether it was found to be held."""

    def __init__(self, leases: Any) -> None:
        self.name, self.seconds, self.peek = leases.name, leases.seconds, leases.peek
        self._leases = leases
        self.held = threading.Event()

    def acquire(self, key: str, *, waits: bool = False) -> Any:
        found = self._leases.acquire(key, waits=waits)
        if isinstance(found, Held):
            self.held.set()
        return found


def test_all_who_wait_go_on_together(level: Any) -> None:
    """Eight processes behind one: none has the lease while it fetches. Who finds nothing that suits him then has it."""
    owner = level()
    lease = owner.acquire(KEY)
    fetching, apart = threading.Barrier(8, timeout=120), threading.Lock()
    compiled: list[int] = []

    def wait(flights: Flights) -> None:
        with flights.flight(KEY) as flight:
            assert flight.gave_way
            fetching.wait()  # broken, if one were to wait for another here
        with flights.flight(KEY, insist=True) as flight:
            assert not flight.gave_way
            assert apart.acquire(blocking=False), "two compile at once"
            compiled.append(1)
            apart.release()
            flight.settle(ok=True)

    levels = [Noting(level()) for _ in range(8)]
    threads = [threading.Thread(target=wait, args=(Flights([one], wait=600.0),)) for one in levels]
    for thread in threads:
        thread.start()
    assert all(one.held.wait(120) for one in levels)
    lease.release(ok=True)
    for thread in threads:
        thread.join(120)
    assert len(compiled) == 8
