"""Single flight: one compile per key over threads and processes; whatever goes wrong, everyone ends and compiles."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from warmgraph.cache import StoreSilent
from warmgraph.cache.stores.disk.locks import FileLeases
from warmgraph.cache.tiers.flight import Flight, Flights
from warmgraph.cache.typing import Held, Lease

KEY = f"wg1{'0' * 64}"
OTHER = f"wg1{'1' * 64}"

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


class Clock:
    """Time that passes only in `sleep`, and what happens at which second."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sleeps = 0
        self.plan: list[tuple[float, Callable[[], None]]] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.sleeps += 1
        self.now += seconds
        due = [step for step in self.plan if step[0] <= self.now]
        self.plan = [step for step in self.plan if step[0] > self.now]
        for _, happen in due:
            happen()

    def at(self, second: float, happen: Callable[[], None]) -> None:
        self.plan.append((second, happen))


class FakeLeases:
    """A level whose state a test sets: held by others, failed, out of reach."""

    def __init__(self, name: str = "redis", seconds: float = 9.0, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.name = name
        self.seconds = seconds
        self.clock = clock
        self.others: dict[str, Held] = {}
        self.mine: dict[str, FakeLease] = {}
        self.down = False
        self.calls: list[tuple[str, float]] = []
        self.released: list[bool] = []
        self.tokens = 0

    def acquire(self, key: str, *, waits: bool = False) -> Lease | Held:
        held = self._ask("acquire", key)
        if held is not None:
            return held
        self.tokens += 1
        self.mine[key] = FakeLease(self, key, self.tokens)
        return self.mine[key]

    def peek(self, key: str) -> Held | None:
        return self._ask("peek", key)

    def _ask(self, what: str, key: str) -> Held | None:
        self.calls.append((what, self.clock()))
        if self.down:
            raise StoreSilent("out of reach")
        return Held("this process") if key in self.mine else self.others.get(key)

    def times(self, what: str) -> list[float]:
        return [when for name, when in self.calls if name == what]


class FakeLease:
    def __init__(self, leases: FakeLeases, key: str, token: int) -> None:
        self.leases, self.key, self.token = leases, key, token

    def release(self, *, ok: bool) -> None:
        self.leases.mine.pop(self.key, None)
        self.leases.released.append(ok)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def level(clock: Clock) -> FakeLeases:
    """Held by a process of another host."""
    level = FakeLeases(clock=clock)
    level.others[KEY] = Held("rank 3 (pid 123 on host7)")
    return level


@pytest.fixture
def flights(level: FakeLeases, clock: Clock) -> Flights:
    return Flights([level], wait=100.0, clock=clock, sleep=clock.sleep)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO, logger="warmgraph.cache")
    return lambda: [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]


# -- one level, fake time


def test_free_lease_is_had_at_once_and_given_back(flights: Flights, level: FakeLeases, said: Callable[..., list[str]]):
    """Nobody has it: no wait and no word; the token is the lease's; settling twice is settling once."""
    level.others.clear()
    with flights.flight(KEY) as flight:
        assert (flight.waited, flight.token) == (0.0, 1)
        flight.settle(ok=True)
        flight.settle(ok=False)
        assert flight.token == 1, "it may still be needed, to publish"
    assert level.released == [True]
    assert said() == []


def test_leaving_without_a_result_is_a_failure(flights: Flights, level: FakeLeases) -> None:
    """Who leaves without settling, or with an exception, gives the lease back as failed."""
    level.others.clear()
    with flights.flight(KEY):
        pass
    with pytest.raises(ZeroDivisionError), flights.flight(KEY):
        _ = 1 / 0
    assert level.released == [False, False]


@pytest.mark.parametrize("how", [KeyboardInterrupt, SystemExit])
def test_interrupted_compile_is_no_failure(flights: Flights, level: FakeLeases, how: type[BaseException]) -> None:
    """A process that is told to end says nothing of the graph: of those that wait one is to compile it, and not all."""
    level.others.clear()
    with pytest.raises(how), flights.flight(KEY):
        raise how
    assert level.released == [True]


def test_wait_ends_when_the_lease_is_free(
    flights: Flights, level: FakeLeases, clock: Clock, said: Callable[..., list[str]]
) -> None:
    """Waiting polls ever more slowly, says for whom at its begin, every 30 s and at its end, and gets the lease."""
    clock.at(70.0, level.others.clear)
    with flights.flight(KEY) as flight:
        assert 70 <= flight.waited <= 71
        assert flight.token == 1
        flight.settle(ok=True)
    assert 100 <= clock.sleeps <= 250  # a second apart in the end
    assert level.times("peek") == []
    begin, *middle, end = said()
    assert begin == "waiting for rank 3 (pid 123 on host7), which compiles wg10000000000000"
    assert len(middle) == 2
    assert end.startswith("waited 70.")


def test_wait_is_bounded(flights: Flights, level: FakeLeases, clock: Clock, said: Callable[..., list[str]]) -> None:
    """After `wait` seconds the flight begins without the lease, which stays the other's."""
    with flights.flight(KEY) as flight:
        assert flight.waited == pytest.approx(100.0)
        assert flight.token == 0
        flight.settle(ok=True)
    assert level.released == []
    assert "after waiting 100.0 s: rank 3 (pid 123 on host7) has it" in said()[-1]


def test_wait_zero_never_waits(level: FakeLeases, clock: Clock) -> None:
    """With wait=0 a lease is taken if it is free, and done without if not."""
    flights = Flights([level], wait=0.0, clock=clock, sleep=clock.sleep)
    with flights.flight(KEY) as flight, flights.flight(OTHER) as other:
        assert (flight.waited, flight.token, other.token) == (0.0, 0, 1)
    assert clock.sleeps == 0


def test_failed_mark_lets_everyone_go(flights: Flights, level: FakeLeases, clock: Clock) -> None:
    """A waiter that learns that the owner failed goes on at once, holding nothing that others could wait for."""
    near = FakeLeases("disk", 0.0, clock)
    flights = Flights([near, level], wait=100.0, clock=clock, sleep=clock.sleep)
    clock.at(5.0, lambda: level.others.update({KEY: Held("rank 3", failed=True)}))
    with flights.flight(KEY) as flight:
        assert 5 <= flight.waited <= 5.3
        assert near.released == [False]
        assert near.mine == {}
    assert near.released == [False]


def test_levels_are_asked_from_near_to_far_and_given_back_from_far_to_near(clock: Clock) -> None:
    """The token is the greatest; a level's lease goes when its result has landed there, the rest when settled."""
    near, far = FakeLeases("disk", 0.0, clock), FakeLeases("redis", 9.0, clock)
    far.tokens = 41
    flights = Flights([near, far], wait=1.0, clock=clock, sleep=clock.sleep)
    near.others[KEY] = Held("pid 1")
    with flights.flight(KEY):
        assert far.calls == [], "one process per host talks to Redis"
    near.others.clear()
    with flights.flight(KEY) as flight:
        assert flight.token == 42
        flight.handed_over()
    assert (near.released, far.released) == ([], [])
    flight.release_level("disk", ok=True)
    flight.release_level("disk", ok=False)
    assert (near.released, far.released) == ([True], [])
    assert flight.token == 42
    flight.settle(ok=False)
    assert (near.released, far.released) == ([True], [False])


def test_level_that_cannot_be_asked_is_done_without(clock: Clock, said: Callable[..., list[str]]) -> None:
    """No contact at the first try: on at once, and the levels behind it are asked all the same."""
    near, far = FakeLeases("disk", 0.0, clock), FakeLeases("redis", 9.0, clock)
    near.down = True
    flights = Flights([near, far], wait=100.0, clock=clock, sleep=clock.sleep)
    with flights.flight(KEY) as flight:
        assert (flight.waited, flight.token) == (0.0, 1)
    assert clock.sleeps == 0
    assert len(said()) == 1
    assert "out of reach" in said()[0]


def test_interrupt_while_waiting_gives_back_what_was_had(level: FakeLeases, clock: Clock) -> None:
    """Ctrl-C during a wait propagates; nearer leases are free again, and not marked as failed: nothing was tried."""
    near = FakeLeases("disk", 0.0, clock)
    flights = Flights([near, level], wait=100.0, clock=clock, sleep=clock.sleep)

    def interrupt() -> None:
        raise KeyboardInterrupt

    clock.at(3.0, interrupt)
    with pytest.raises(KeyboardInterrupt), flights.flight(KEY):
        pytest.fail("the flight began")
    assert near.released == [True]
    level.others.clear()
    with flights.flight(KEY) as flight:
        assert flight.waited == 0.0, "the thread is in no flight any more, and its turn is free"
        assert flight.token > 0


# -- outages


def outage(level: FakeLeases, clock: Clock, begin: float, end: float) -> None:
    clock.at(begin, lambda: setattr(level, "down", True))
    clock.at(end, lambda: setattr(level, "down", False))


def test_short_outage_is_waited_out(flights: Flights, level: FakeLeases, clock: Clock) -> None:
    """Silence shorter than the lease's time changes nothing for one who waits; nothing is taken during it."""
    outage(level, clock, 5.0, 13.0)
    clock.at(20.0, level.others.clear)
    with flights.flight(KEY) as flight:
        assert 20 <= flight.waited <= 20.4
        assert flight.token == 1
    assert [when for when in level.times("acquire") if 5.3 < when < 13] == []


def test_long_outage_is_not(flights: Flights, level: FakeLeases, clock: Clock, said: Callable[..., list[str]]) -> None:
    """After the lease's time without contact the flight begins without that level."""
    outage(level, clock, 5.0, 1000.0)
    with flights.flight(KEY) as flight:
        assert 14 <= flight.waited <= 14.5
        assert flight.token == 0
    assert "out of reach" in said()[-1]


def test_outages_do_not_add_up(flights: Flights, level: FakeLeases, clock: Clock) -> None:
    """Contact in between starts the count anew."""
    for begin in range(0, 40, 8):
        outage(level, clock, begin + 1.0, begin + 7.0)
    clock.at(45.0, level.others.clear)
    with flights.flight(KEY) as flight:
        assert 45 <= flight.waited <= 46


def test_owner_may_come_back_after_a_restart(flights: Flights, level: FakeLeases, clock: Clock) -> None:
    """A level that forgot its leases in a restart is only looked at until the next heartbeat of an owner is due."""
    held = dict(level.others)
    outage(level, clock, 5.0, 8.0)
    clock.at(6.0, level.others.clear)
    clock.at(10.5, lambda: level.others.update(held))  # within 9 / 3 s of the return
    clock.at(30.0, level.others.clear)
    with flights.flight(KEY) as flight:
        assert 30 <= flight.waited <= 31, "the owner's compile was not doubled"
        assert flight.token == 1
    assert [when for when in level.times("acquire") if 5.3 < when < 10.5] == []


def test_owner_that_does_not_come_back_is_replaced(flights: Flights, level: FakeLeases, clock: Clock) -> None:
    """No heartbeat within a third of the lease's time after a restart: the lease is taken."""
    outage(level, clock, 5.0, 8.0)
    clock.at(6.0, level.others.clear)
    with flights.flight(KEY) as flight:
        assert 11 <= flight.waited <= 11.5
        assert flight.token == 1


def test_wait_bounds_an_outage_too(level: FakeLeases, clock: Clock) -> None:
    """A waiter whose level falls silent waits no longer than `wait`."""
    flights = Flights([level], wait=7.0, clock=clock, sleep=clock.sleep)
    outage(level, clock, 5.0, 1000.0)
    with flights.flight(KEY) as flight:
        assert flight.waited == pytest.approx(7.0)


# -- nesting


def test_nested_flight_never_waits(flights: Flights, level: FakeLeases, clock: Clock) -> None:
    """Inside a flight a free lease is taken and a held one is not waited for; afterwards the thread waits again."""
    with flights.flight(OTHER) as outer, flights.flight(KEY) as inner:
        assert (outer.token, inner.token, inner.waited) == (1, 0, 0.0)
    assert clock.sleeps == 0
    with flights.flight(KEY) as alone:
        assert alone.waited == pytest.approx(100.0)


def test_same_key_again_by_the_same_thread(flights: Flights, level: FakeLeases) -> None:
    """The inner flight of one key has nothing, gives nothing back and disturbs nothing."""
    with flights.flight(OTHER) as outer:
        with flights.flight(OTHER) as inner:
            assert (inner.token, inner.waited) == (0, 0.0)
        assert level.released == []
        outer.settle(ok=True)
    assert level.released == [True]


def join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread never came back"


def test_opposite_orders_in_two_threads_end(tmp_path: Path) -> None:
    """Two threads that nest two keys in opposite orders do not wait for each other."""
    flights = Flights([FileLeases(tmp_path)], wait=50.0)
    both_in, waits = threading.Barrier(2), []

    def work(first: str, second: str) -> None:
        with flights.flight(first):
            both_in.wait(30)
            with flights.flight(second) as inner:
                waits.append(inner.waited)
            both_in.wait(30)

    threads = [threading.Thread(target=work, args=keys) for keys in [(KEY, OTHER), (OTHER, KEY)]]
    for thread in threads:
        thread.start()
    join(threads)
    assert waits == [0.0, 0.0]


# -- threads


def in_threads(count: int, work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    join(threads)


@pytest.mark.parametrize("behind", [False, True], ids=["settled", "handed over"])
def test_sixteen_threads_compile_once(tmp_path: Path, behind: bool) -> None:
    """One key, 16 threads: one compile, one owner at a time; nobody waits for this process's background write."""
    flights = Flights([FileLeases(tmp_path)], wait=50.0)
    memory: list[str] = []
    taken: list[Flight] = []
    inside, most = [0], [0]

    def work() -> None:
        with flights.flight(KEY) as flight:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            if not memory:
                time.sleep(0.1)
                memory.append("result")
                taken.append(flight)
                inside[0] -= 1
                if behind:
                    flight.handed_over()
                    return
            else:
                inside[0] -= 1
            flight.settle(ok=True)

    started = time.monotonic()
    in_threads(16, work)
    assert (memory, most) == (["result"], [1])
    assert time.monotonic() - started < 20
    assert isinstance(FileLeases(tmp_path).peek(KEY), Held) is behind, "other processes wait for the write"
    taken[0].settle(ok=True)
    assert FileLeases(tmp_path).peek(KEY) is None


def test_threads_that_waited_for_a_failure_go_on_together(tmp_path: Path, said: Callable[[], list[str]]) -> None:
    """When the owner's compile raises, all threads that waited go on at once, without leases, side by side."""
    flights = Flights([FileLeases(tmp_path)], wait=50.0)
    began, side_by_side = threading.Event(), threading.Barrier(8)

    def fail() -> None:
        with pytest.raises(RuntimeError), flights.flight(KEY):
            began.set()
            while sum(line.startswith("waiting for") for line in said()) < 8:
                time.sleep(0.01)
            raise RuntimeError

    def follow() -> None:
        began.wait(30)
        with flights.flight(KEY) as flight:
            assert flight.waited > 0
            side_by_side.wait(30)
            reached.append(flight)

    reached: list[Flight] = []
    owner = threading.Thread(target=fail)
    owner.start()
    in_threads(8, follow)
    owner.join(30)
    assert len(reached) == 8
    assert FileLeases(tmp_path)._open == {}


def test_thread_waits_no_longer_than_it_may() -> None:
    """A thread gives up on another thread after `wait` seconds, and disturbs it in nothing."""
    flights, leave, waits = Flights([], wait=0.2), threading.Event(), []

    def follow() -> None:
        with flights.flight(KEY) as flight:
            waits.append(flight.waited)
        leave.set()

    with flights.flight(KEY) as first:
        thread = threading.Thread(target=follow)
        thread.start()
        assert leave.wait(30)
        first.settle(ok=True)
    thread.join(30)
    assert 0.1 < waits[0] < 20


def test_background_thread_settles(tmp_path: Path) -> None:
    """A flight may be settled by another thread, inside its block or long after it."""
    flights = Flights([FileLeases(tmp_path)], wait=50.0)
    for during in (True, False):
        with ExitStack() as block:
            flight = block.enter_context(flights.flight(KEY))
            flight.handed_over()
            if not during:
                block.close()
            in_threads(1, lambda done=flight: done.settle(ok=True))  # type: ignore[misc]
            assert FileLeases(tmp_path).peek(KEY) is None


def test_result_in_memory_counts_for_threads_even_if_it_cannot_be_written() -> None:
    """Handed over and then not written: failed for other processes; this one's threads get their turn, and look."""
    level = FakeLeases()
    flights, tokens = Flights([level], wait=50.0), []

    def follow() -> None:
        with flights.flight(KEY) as flight:
            tokens.append(flight.token)
            flight.settle(ok=True)

    with flights.flight(KEY) as flight:
        thread = threading.Thread(target=follow)
        thread.start()
        time.sleep(0.2)
        flight.handed_over()
        flight.settle(ok=False)
    join([thread])
    assert level.released == [False, True]
    assert tokens == [2]


# -- processes

WORKER = """
import os, sys, time
from pathlib import Path
from warmgraph.cache.tiers.flight import Flights
from warmgraph.cache.stores.disk.locks import FileLeases

root, key = Path(sys.argv[1]), sys.argv[2]
end, seconds = sys.argv[3].split()
result = root / "result"
waits = []

def sleep(seconds):
    if not waits:
        print("waits", flush=True)
    waits.append(time.sleep(seconds))

flights = Flights([FileLeases(root)], wait=60.0, sleep=sleep)

def say(text):
    with open(root / "said", "a") as file:
        file.write(text + "\\n")

print("ready", flush=True)
sys.stdin.readline()
before = time.process_time()
with flights.flight(key) as flight:
    cpu = time.process_time() - before
    if result.exists():
        flight.settle(ok=True)
    else:
        say(f"compiles {os.getpid()}")
        print("compiles", flush=True)
        time.sleep(float(seconds))
        if end == "good":
            say("compiled")
            result.write_text("result")
            flight.settle(ok=True)
print("done", round(flight.waited, 3), round(cpu, 3), flush=True)
"""


class Fleet:
    """Processes on one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, how: str = "good 0.5", count: int = 1, code: str = WORKER) -> list[subprocess.Popen[str]]:
        """Start processes and wait until all have imported what they need; `go` lets them begin."""
        started = [
            subprocess.Popen(
                [sys.executable, "-c", code, str(self.root), KEY, how],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(count)
        ]
        self.processes += started
        for process in started:
            assert self.line(process) == "ready"
        return started

    def go(self, processes: list[subprocess.Popen[str]]) -> None:
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()

    def line(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline().strip()

    def finish(self, processes: list[subprocess.Popen[str]]) -> list[str]:
        """The last line of each."""
        outputs = [process.communicate(timeout=120)[0] for process in processes]
        assert [process.returncode for process in processes] == [0] * len(processes)
        return [output.splitlines()[-1] for output in outputs]

    def said(self) -> list[str]:
        return (self.root / "said").read_text().splitlines()


@pytest.fixture
def fleet(tmp_path: Path):
    fleet = Fleet(tmp_path)
    yield fleet
    for process in fleet.processes:
        process.kill()
        process.communicate()


def test_six_processes_compile_once(fleet: Fleet) -> None:
    """Six processes, one key: exactly one compiles; the others wait and find its result."""
    processes = fleet.start(count=6)
    fleet.go(processes)
    assert len(fleet.finish(processes)) == 6
    assert [line.split()[0] for line in fleet.said()] == ["compiles", "compiled"]


def test_killed_owner_is_replaced_by_one(fleet: Fleet) -> None:
    """kill -9 in the middle of a compile: exactly one of those who wait takes over. Waiting costs next to no CPU."""
    owner, waiters = fleet.start("good 600"), fleet.start(count=4)
    fleet.go(owner)
    assert fleet.line(owner[0]) == "compiles"
    fleet.go(waiters)
    assert [fleet.line(waiter) for waiter in waiters] == ["waits"] * 4
    time.sleep(1.0)
    owner[0].send_signal(signal.SIGKILL)
    ends = [line.split() for line in fleet.finish(waiters)]
    assert [line.split()[0] for line in fleet.said()] == ["compiles", "compiles", "compiled"]
    assert all(float(waited) > 0 for _, waited, _ in ends)
    assert all(float(cpu) < 0.3 for *_, cpu in ends)


def test_owner_that_fails_lets_all_go_at_once(fleet: Fleet) -> None:
    """The owner's compile gives nothing: all others compile, side by side and not one after the other."""
    owner, others = fleet.start("bad 0.5"), fleet.start("bad 600", count=3)
    fleet.go(owner)
    assert fleet.line(owner[0]) == "compiles"
    fleet.go(others)
    began = time.monotonic()
    for other in others:
        while fleet.line(other) != "compiles":  # it waits before that
            assert other.poll() is None
    assert time.monotonic() - began < 30, "somebody waited for a second failure, as long as may be waited"
    assert sum(line.startswith("compiles") for line in fleet.said()) == 4


NESTING = """
import sys, time
from pathlib import Path
from warmgraph.cache.tiers.flight import Flights
from warmgraph.cache.stores.disk.locks import FileLeases

root, keys = Path(sys.argv[1]), ["wg1" + "0" * 64, "wg1" + "1" * 64]
flights = Flights([FileLeases(root)], wait=600.0)
if sys.argv[3] == "reversed":
    keys.reverse()
print("ready", flush=True)
sys.stdin.readline()
with flights.flight(keys[0]):
    print("in", flush=True)
    sys.stdin.readline()
    with flights.flight(keys[1]) as inner:
        print(inner.waited, flush=True)
        sys.stdin.readline()
print("done")
"""


def test_opposite_orders_in_two_processes_end(fleet: Fleet) -> None:
    """Two processes that nest two keys in opposite orders do not wait for each other."""
    processes = fleet.start("straight", code=NESTING) + fleet.start("reversed", code=NESTING)
    for expected in ("in", "0.0"):
        fleet.go(processes)
        assert [fleet.line(process) for process in processes] == [expected, expected]
    fleet.go(processes)
    assert fleet.finish(processes) == ["done", "done"]


def test_child_of_a_fork_has_no_flight(tmp_path: Path) -> None:
    """In a child the inherited flight gives nothing back, the key is another process's, and nothing is nested."""
    flights = Flights([FileLeases(tmp_path)], wait=0.3)
    redis = FakeLeases()
    remote = Flights([redis], wait=0.3)
    with flights.flight(KEY) as flight, remote.flight(KEY) as far:
        pid = os.fork()
        if pid == 0:
            try:
                flight.settle(ok=True)
                far.settle(ok=True)
                with flights.flight(KEY) as inner:
                    good = inner.waited > 0.2 and redis.released == []
                os._exit(0 if good else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert isinstance(FileLeases(tmp_path).acquire(KEY), Held)
        flight.settle(ok=True)
    assert FileLeases(tmp_path).peek(KEY) is None


def test_folder_without_write_permission_is_done_without(mounted: Callable[[str], Path]) -> None:
    """On a read-only file system every process compiles at once, and nothing is raised."""
    folder = mounted("ro")
    flights = Flights([FileLeases(folder)], wait=50.0)
    with flights.flight(KEY) as flight:
        assert (flight.waited, flight.token) == (0.0, 0)
