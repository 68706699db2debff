"""The circuit breaker of a remote tier; leases that end where a result landed. No network: doubles, a fake clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from warmgraph.cache import Cache, Flights, Hit, MemoryStore, Miss, Reason, StoreSilent, StoreUnavailable
from warmgraph.cache.stores.circuit_breaker import Health
from warmgraph.cache.tiers.access import Policy
from warmgraph.cache.typing import Held


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Probe:
    """A server that answers probes, or not. asked: which uses were probed."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.error: StoreUnavailable | None = StoreSilent("still down")

    def __call__(self, use: str) -> None:
        self.asked.append(use)
        if self.error is not None:
            raise self.error


def settled(health: Health, tier: str, use: Any) -> bool:
    """`usable`, once a probe that it may have started is over."""
    before = health.usable(tier, use)
    for thread in threading.enumerate():
        if thread.name.startswith("warmgraph-probe"):
            thread.join(5)
    return before


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def probe() -> Probe:
    return Probe()


@pytest.fixture
def health(clock: Clock, probe: Probe) -> Health:
    return Health({"far": probe}, clock)


def test_silence_is_waited_for_once(health: Health) -> None:
    """Who did not answer a write is not asked to read either; nor the other way round."""
    for use in ("write", "read"):
        fresh = Health({"far": Probe()}, Clock())
        fresh.failed("far", use, StoreSilent("no answer"))  # type: ignore[arg-type]
        assert not fresh.usable("far", "read")
        assert not fresh.usable("far", "write")


def test_refusing_writes_leaves_reads(health: Health) -> None:
    """A server that is full, or a replica, still gives hits."""
    health.failed("far", "write", StoreUnavailable("it is full"))
    assert health.usable("far", "read")
    assert not health.usable("far", "write")
    assert isinstance(health.error("far", "write"), StoreUnavailable)
    assert not isinstance(health.error("far", "write"), StoreSilent)


def test_nobody_waits_until_a_probe_came_back(health: Health, clock: Clock, probe: Probe) -> None:
    """Probes run in the background, at growing distances; the caller only learns of their success."""
    health.failed("far", "read", StoreSilent("no answer"))
    assert not settled(health, "far", "read")
    assert probe.asked == [], "not at once"
    distances = []
    for _ in range(4):
        before = clock.now
        while len(probe.asked) == len(distances):
            clock.now += 0.5
            assert not settled(health, "far", "read")
        distances.append(clock.now - before)
    assert distances == [1.0, 1.0, 2.0, 4.0]
    probe.error = None
    clock.now += 8
    assert not settled(health, "far", "read"), "whoever starts the probe does not wait for it"
    assert settled(health, "far", "read")
    assert health.report() == {}


def test_many_waiters_are_one_failure(health: Health, clock: Clock, probe: Probe) -> None:
    """Sixteen threads that wait for the same silence do not make it sixteen failures."""
    for _ in range(16):
        health.failed("far", "read", StoreSilent("no answer"))
    clock.now += 1.0
    settled(health, "far", "read")
    assert probe.asked == ["read"]


def test_asking_how_it_is_finds_out_that_it_is_well(health: Health, clock: Clock, probe: Probe) -> None:
    """`stats()` alone, without lookups, sees a tier recover."""
    health.failed("far", "read", StoreSilent("no answer"))
    probe.error = None
    clock.now += 1.0
    deadline = time.monotonic() + 10
    while health.report() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert health.report() == {}


def test_a_local_tier_is_tried_again_by_whoever_comes(clock: Clock) -> None:
    """Without a probe: after a minute, by a lookup."""
    health = Health({}, clock)
    health.failed("disk", "read", StoreUnavailable("the disk is gone"))
    clock.now += 59
    assert not health.usable("disk", "read")
    clock.now += 2
    assert health.usable("disk", "read")


# -- leases end where the result landed


class Leases:
    """Free for whoever asks; notes how its leases end."""

    seconds = 0.0

    def __init__(self, name: str) -> None:
        self.name = name
        self.token = 7
        self.ended: list[bool] = []

    def acquire(self, key: str, *, waits: bool = False) -> Any:
        return self

    def peek(self, key: str) -> Held | None:
        return None

    def release(self, *, ok: bool) -> None:
        self.ended.append(ok)


class Store(MemoryStore):
    """A slow tier that may refuse to be written."""

    def __init__(self, name: str, error: StoreUnavailable | None = None) -> None:
        super().__init__(name=name)
        self.error = error
        self.threads: set[str] = set()

    def put_blob(self, ref: Any, data: bytes) -> None:
        if self.error is not None:
            raise self.error
        super().put_blob(ref, data)

    def quarantine(self, key: str, variant: str, why: str, sealed: bytes | None = None) -> None:
        self.threads.add(threading.current_thread().name)
        super().quarantine(key, variant, why, sealed)


@pytest.mark.parametrize(
    ("broken", "near", "far"),
    [((), True, True), (("far",), True, False), (("near",), True, True), (("near", "far"), False, False)],
    ids=["none", "far", "near", "both"],
)
def test_waiters_are_told_what_landed(make: SimpleNamespace, broken: tuple[str, ...], near: bool, far: bool) -> None:
    """Who waits near looks near and far; who waits far has to find it there, or is told to stop waiting."""
    stores = [Store(name, StoreUnavailable("it is full") if name in broken else None) for name in ("near", "far")]
    levels = [Leases("near"), Leases("far")]
    cache = Cache(MemoryStore(), stores, flights=Flights(levels, wait=0.0))
    with cache.flight(make.key_of(1)) as flight:
        cache.publish(make.draft(1), make.contents(1), flight)
    assert cache.flush()
    assert [level.ended for level in levels] == [[near], [far]]


def test_nothing_kept_ends_all_leases(make: SimpleNamespace) -> None:
    """A compile that raises, a publish that cannot be, or is not even tried: nobody goes on waiting."""
    levels = [Leases("near")]
    cache = Cache(MemoryStore(), [Store("near")], flights=Flights(levels, wait=0.0))
    with pytest.raises(RuntimeError), cache.flight(make.key_of(1)):
        raise RuntimeError
    with pytest.raises(ValueError, match="stored"), cache.flight(make.key_of(1)) as flight:
        cache.publish(make.draft(1), [*make.contents(1), *make.contents(1)], flight)
    with cache.flight(make.key_of(1)):
        pass
    assert levels[0].ended == [False, False, False]


@pytest.mark.parametrize(("at", "ended"), [("near", [[False], [False]]), ("far", [[True], [False]])])
def test_a_thread_that_cannot_hand_over_gives_back(
    make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, at: str, ended: list[list[bool]]
) -> None:
    """Ctrl-C between the compile and the background threads: no lease outlives it."""
    levels = [Leases("near"), Leases("far")]
    cache = Cache(MemoryStore(), [Store("near"), Store("far")], flights=Flights(levels, wait=0.0))

    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(cache._writers[at], "submit", interrupted)
    with pytest.raises(KeyboardInterrupt), cache.flight(make.key_of(1)) as flight:
        cache.publish(make.draft(1), make.contents(1), flight)
    assert cache.flush()
    assert [level.ended for level in levels] == ended


class SlowStore(Store):
    """It takes no entry before it is told to."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.goes_on = threading.Event()

    def put_entry(self, key: str, variant: str, sealed: bytes) -> None:
        assert self.goes_on.wait(30)
        super().put_entry(key, variant, sealed)


@pytest.mark.parametrize("slow", [0, 1])
def test_a_tier_waits_for_no_other(make: SimpleNamespace, slow: int) -> None:
    """Results come to a folder while a network is slow, and to a network while a folder is; so do those who wait."""
    reports: list[Any] = []
    stores = [Store("near"), Store("far")]
    stores[slow] = held_up = SlowStore(stores[slow].name)
    levels = [Leases("near"), Leases("far")]
    cache = Cache(
        MemoryStore(), stores, flights=Flights(levels, wait=0.0), on_published=lambda *report: reports.append(report)
    )
    for number in (1, 2):
        with cache.flight(make.key_of(number)) as flight:
            cache.publish(make.draft(number), make.contents(number), flight)
    assert cache._writers[stores[1 - slow].name].flush(30)
    assert [len(list(stores[1 - slow].entries(make.key_of(number)))) for number in (1, 2)] == [1, 1]
    assert levels[1 - slow].ended == [True, True]
    assert levels[slow].ended == [] and reports == []
    held_up.goes_on.set()
    assert cache.flush()
    assert levels[slow].ended == [True, True]
    assert [(entry.key, error) for entry, _, error in reports] == [(make.key_of(1), None), (make.key_of(2), None)]


@pytest.mark.parametrize("full", [0, 1])
def test_a_tier_for_which_too_much_waits_goes_without(
    make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, full: int
) -> None:
    """The other one does not."""
    reports: list[Any] = []
    stores, levels = [Store("near"), Store("far")], [Leases("near"), Leases("far")]
    cache = Cache(
        MemoryStore(), stores, flights=Flights(levels, wait=0.0), on_published=lambda *report: reports.append(report)
    )
    monkeypatch.setattr(cache._writers[stores[full].name], "submit", lambda *_: False)
    with cache.flight(make.key_of(1)) as flight:
        cache.publish(make.draft(1), make.contents(1), flight)
    assert cache.flush()
    assert [len(list(store.entries(make.key_of(1)))) for store in stores] == [int(full == 1), int(full == 0)]
    assert [level.ended for level in levels] == [[True], [full == 0]]
    [(_, _, error)] = reports
    assert "too many results wait" in str(error)


def test_a_result_that_is_set_aside_does_not_come_back(make: SimpleNamespace) -> None:
    """Also where it was still to be written."""
    far = SlowStore("far")
    cache = Cache(MemoryStore(), [Store("near"), far])
    cache.publish(make.draft(1), make.contents(1))
    assert cache._writers["near"].flush(30)
    cache.quarantine(make.key_of(1), "v0", "it did not load")
    far.goes_on.set()
    assert cache.flush()
    assert cache.lookup(make.key_of(1), make.always) == Miss(Reason.ABSENT)


def test_a_remote_tier_is_cleaned_up_in_the_background(make: SimpleNamespace) -> None:
    """Removing what did not load there holds up nobody; this process overlooks it at once."""
    far = Store("far")
    cache = Cache(MemoryStore(max_bytes=0), [far], policies={"far": Policy(remote=True)})
    cache.publish(make.draft(1), make.contents(1))
    assert cache.flush()
    hit = cache.lookup(make.key_of(1), make.always)
    assert isinstance(hit, Hit)
    cache.quarantine(make.key_of(1), "v0", "it did not load", hit.sealed)
    assert cache.lookup(make.key_of(1), make.always) == Miss(Reason.ABSENT)
    assert cache.flush()
    assert far.threads == {"warmgraph-writer"}
    assert list(far.entries(make.key_of(1))) == []


def test_refreshing_threads_do_not_take_turns(opener: Any, make: SimpleNamespace) -> None:
    """mode=refresh publishes anew and looks nothing up: there is nothing to wait for."""
    cache = opener(mode="refresh")
    inside = threading.Barrier(3, timeout=10)

    def work() -> None:
        with cache.flight(make.key_of(1)) as flight:
            inside.wait()
            flight.settle(ok=True)

    threads: list[Callable[[], None]] = [work] * 3
    running = [threading.Thread(target=one) for one in threads]
    for one in running:
        one.start()
    for one in running:
        one.join(20)
    assert not inside.broken


def test_a_pause_is_bridged_before_a_compile(health: Health, clock: Clock, probe: Probe) -> None:
    """A server that has answered and is silent for a moment is waited for: the price of not doing so is a compile."""
    health.worked("far", "read")
    health.failed("far", "read", StoreSilent("no answer"))

    def answers_the_third(use: str) -> None:
        clock.now += 0.1
        probe.error = None if len(probe.asked) == 2 else StoreSilent("still down")
        Probe.__call__(probe, use)

    health._probes["far"] = answers_the_third
    health.bridge("far")
    assert health.usable("far", "read")
    assert len(probe.asked) == 3


def test_an_outage_is_bridged_once(health: Health, clock: Clock, probe: Probe) -> None:
    """Who stays silent is given up after two seconds, and not waited for by the next graph."""
    health.worked("far", "read")
    health.failed("far", "read", StoreSilent("no answer"))

    def takes_time(use: str) -> None:
        clock.now += 0.5
        Probe.__call__(probe, use)

    health._probes["far"] = takes_time
    health.bridge("far")
    assert probe.asked == ["read"] * 4
    health.bridge("far")
    assert len(probe.asked) == 4
    assert not health.usable("far", "read")


def test_who_answers_probes_alone_is_bridged_once(health: Health, clock: Clock, probe: Probe) -> None:
    """A server from which small answers come, and no large ones: each look-up fails, each probe works."""
    health.worked("far", "read")
    probe.error = None
    for _ in range(10):
        clock.now += 0.15
        if health.usable("far", "read"):
            health.failed("far", "read", StoreSilent("no answer"))
        health.bridge("far")
    assert probe.asked == ["read"]
    assert not health.usable("far", "read")
    clock.now += 3600
    health.worked("far", "read")
    health.failed("far", "read", StoreSilent("no answer"))
    health.bridge("far")
    assert len(probe.asked) == 2, "a pause an hour later is another one"


def test_who_never_answered_is_not_bridged(health: Health, probe: Probe) -> None:
    """A server that is off costs a process its first deadline. One that refuses has said so, and may go on."""
    health.failed("far", "read", StoreSilent("no answer"))
    health.bridge("far")
    fresh = Health({"far": probe}, Clock())
    fresh.worked("far", "read")
    fresh.failed("far", "read", StoreUnavailable("NOAUTH"))
    fresh.bridge("far")
    fresh.bridge("near")
    assert probe.asked == []


def test_a_probe_under_way_is_waited_for(clock: Clock) -> None:
    """One that was silent at the first request is asked again once a frame is traced: it is known a moment later."""
    asked = threading.Event()

    def answers(use: str) -> None:
        asked.wait(5)

    health = Health({"far": answers}, clock)
    health.failed("far", "read", StoreSilent("no answer"))
    clock.now += 2
    assert not health.usable("far", "read"), "this starts the probe"
    threading.Timer(0.01, asked.set).start()
    for _ in range(100):  # a busy machine: the moment may be over before the other thread ran
        health.bridge("far")
        if health.usable("far", "read"):
            return
        time.sleep(0.05)
    pytest.fail("it did not come back")
