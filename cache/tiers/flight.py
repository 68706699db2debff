"""Single flight: one compile per key over threads, processes and hosts. Knows no stores; takes no file lock itself.

    with flights.flight(key) as flight:  # waits here for others, at most `wait` seconds
        ...                              # look up again: another may have been faster. Else compile and publish
        flight.settle(ok=True)           # or handed_over(), and a background writer calls release_level() and settle()

Levels, from near to far: the threads of this process, then each `Leases` in its order. A level is asked only by
those who have all nearer ones, so one process per host talks to Redis.

Right results need none of this: who may not wait, or waited in vain, compiles without a lease. So nothing is
raised for a level that cannot be asked; and a thread inside a flight never waits for another one, so that
graphs may nest in any order without a deadlock.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from ..process.forks import reset_in_child
from ..typing import Held, Lease, Leases, StoreSilent, StoreUnavailable

logger = logging.getLogger(__package__)

LINE_SECONDS = 30.0  # between two lines in the log of one who waits

_THREADS = "threads"
_ANOTHER_THREAD = "another thread of this process"
_HAS_IT, _STOPPED = "%s has it, and that is as long as this process may wait", "%s has it, and is stopped"
_FAILED = "the last compile left nothing to wait for (%s)"
_FIRST_PAUSE, _LAST_PAUSE, _LONGEST_PAUSE = 0.01, 0.2, 1.0  # seconds between two polls of a level: at first, soon, ever
_SHARE = 0.02  # of what was waited so far: a long compile is asked for less often, and known at most that much later

Clock = Callable[[], float]


class Flights:
    """Flights of one process. wait: the most seconds it may wait over all keys; 0: it never waits. clock, sleep: for
    tests. Safe over fork.
    """

    def __init__(
        self,
        levels: Sequence[Leases],
        *,
        wait: float,
        clock: Clock = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._levels = tuple(levels)
        self._wait = wait
        self._clock = clock
        self._sleep = sleep
        self.after_fork_in_child()
        reset_in_child(self)

    def after_fork_in_child(self) -> None:
        """Start empty: what the parent has, and whom its threads wait for, is the parent's affair."""
        self._turns: dict[str, _Turn] = {}  # here as below, single operations only: atomic, so no lock is needed
        self._ours: set[tuple[str, str]] = set()  # (level, key) of the leases this process has
        self._inside = _Inside()
        self._waited = 0.0  # seconds so far; of threads that wait at once, each counts

    @contextmanager
    def flight(self, key: str, *, insist: bool = False) -> Iterator[Flight]:
        """The right to compile `key`, as far as it could be had in time. insist: see `Flight.gave_way`."""
        outer = self._inside.keys
        flight = Flight(key, self._ours)
        nested, again, nothing_failed = bool(outer), key in outer, True
        outer.append(key)
        try:
            if not again:
                self._acquire_levels(flight, 0.0 if nested else max(0.0, self._wait - self._waited), insist)
            nothing_failed = False  # unless it is said
            yield flight
        except BaseException as error:  # an interrupt says nothing of the graph: the next one may have it
            nothing_failed |= not isinstance(error, Exception)
            raise
        finally:
            outer.pop()
            flight.leave(ok=nothing_failed)

    def inside(self, key: str | None = None) -> bool:
        """Whether this thread is inside of a flight; of `key`."""
        return bool(self._inside.keys) if key is None else key in self._inside.keys

    def _acquire_levels(self, flight: Flight, seconds: float, insist: bool) -> None:
        waiting = _Waiting(flight.key, seconds, self._clock)
        try:
            if self._has(flight, _THREADS, self._turn(flight.key, waiting), waiting):
                for level in self._levels:
                    if not self._has(flight, level.name, self._lease(level, flight.key, waiting, insist), waiting):
                        break
        finally:
            flight.waited = waiting.waited
            self._waited += waiting.waited
        waiting.over()

    def _has(self, flight: Flight, level: str, found: Lease | _Without, waiting: _Waiting) -> bool:
        """Note what was had of one level. False: do not ask those behind it."""
        if not isinstance(found, _Without):
            flight.add(level, found)
            return True
        flight.gave_way = found.gives_way
        if found.why is not None:
            waiting.in_vain(level, found.why)
        if found.gives_up:
            flight.settle(ok=False)  # who waits for us would wait for what cannot be had
        return found.further

    def _turn(self, key: str, waiting: _Waiting) -> Lease | _Without:
        mine = _Turn(key, self._turns)
        while (turn := self._turns.setdefault(key, mine)) is not mine:
            while not turn.ended.is_set():
                if waiting.left() <= 0:
                    return _Without(_HAS_IT % _ANOTHER_THREAD)
                waiting.waits_for(_ANOTHER_THREAD)
                turn.ended.wait(min(waiting.left(), LINE_SECONDS))
            if turn.failed:
                return _Without(_FAILED % _ANOTHER_THREAD, gives_up=True)
        return mine

    def _lease(self, level: Leases, key: str, waiting: _Waiting, insist: bool) -> Lease | _Without:
        contact, pause, waits = _Contact(level, self._clock), _FIRST_PAUSE, False
        while True:
            try:
                answer = contact.ask(key, waits and not insist)
            except StoreUnavailable as error:
                return _Without(str(error), further=True)
            if answer is not None and not isinstance(answer, Held):
                return answer
            if answer is not None and answer.given_back:
                return _Without(None, gives_way=True)
            owner = waiting.owner if answer is None else answer.owner
            if answer is not None and answer.failed:
                return _Without(_FAILED % owner, gives_up=True)
            if answer is not None and answer.stopped:  # its lease of a level behind this one ends by itself
                return _Without(_STOPPED % owner, further=True)
            if (level.name, key) in self._ours:
                # Our own background write, as our threads exclude each other: its result is in memory already.
                return _Without(None)
            if waiting.left() <= 0:
                return _Without(_HAS_IT % owner)
            waiting.waits_for(owner)
            waits = True
            jittered = pause * random.uniform(0.5, 1.0)  # noqa: S311 (so that waiters do not ask in step)
            self._sleep(min(jittered, waiting.left()))
            pause = min(pause * 1.5, max(_LAST_PAUSE, min(_SHARE * waiting.waited, _LONGEST_PAUSE)))


class Flight:
    """What one caller has of a key: leases, perhaps none. Thread-safe; means nothing in a child of a fork.

    waited: seconds spent waiting for others before it began. gave_way: another gave the right back, with a result; who
    then finds nothing that is right for him begins anew and insists.
    """

    def __init__(self, key: str, ours: set[tuple[str, str]]) -> None:
        self.key = key
        self.waited = 0.0
        self.gave_way = False
        self._ours = ours
        self._leases: dict[str, Lease] = {}
        self._token = 0
        self._handed_over = False
        self._process = os.getpid()

    @property
    def token(self) -> int:
        """The greatest fencing token among the leases it was given, held still or not; 0 if there was none."""
        return self._token

    def release_level(self, level: str, *, ok: bool) -> None:
        """Give back the lease of one level. ok: the result is where those who wait at that level will look."""
        if os.getpid() != self._process:
            return
        lease = self._leases.pop(level, None)
        if lease is None:
            return
        self._ours.discard((level, self.key))
        # What was handed over is in memory, where threads look, whatever becomes of it elsewhere.
        lease.release(ok=ok or (level == _THREADS and self._handed_over))

    def settle(self, *, ok: bool) -> None:
        """Give back whatever is left. Twice is once. ok: as in `release_level`."""
        for level in reversed(list(self._leases)):  # far before near: who waits here would only wait there then
            self.release_level(level, ok=ok)

    def handed_over(self) -> None:
        """The result is in memory; `release_level` and `settle` will be called when it has been written elsewhere."""
        self._handed_over = True

    # -- for Flights

    def add(self, level: str, lease: Lease) -> None:
        self._leases[level] = lease
        self._token = max(self._token, lease.token)
        self._ours.add((level, self.key))

    def leave(self, *, ok: bool) -> None:
        if self._handed_over:
            self.release_level(_THREADS, ok=True)
        else:
            self.settle(ok=ok or self.gave_way)


class _Turn:
    """A lease among the threads of one process."""

    token = 0

    def __init__(self, key: str, turns: dict[str, _Turn]) -> None:
        self._key = key
        self._turns = turns
        self.failed = False
        self.ended = threading.Event()

    def release(self, *, ok: bool) -> None:
        self.failed = not ok
        self._turns.pop(self._key, None)  # before waking the others, who want to be in it
        self.ended.set()


class _Inside(threading.local):
    """The keys of the flights that a thread is inside of."""

    def __init__(self) -> None:
        self.keys: list[str] = []


class _Without(Struct, frozen=True):
    """A lease that could not be had. why: for the log, unless None. further: levels behind it are worth asking.
    gives_up: there is nothing to wait for, for anybody. gives_way: another's result is there.
    """

    why: str | None
    further: bool = False
    gives_up: bool = False
    gives_way: bool = False


class _Waiting:
    """How long one call may still wait, and what the log says of it."""

    def __init__(self, key: str, seconds: float, clock: Clock) -> None:
        self.owner = "another process"
        self._key = key
        self._seconds = seconds
        self._clock = clock
        self._deadline = clock() + seconds
        self._begun: float | None = None
        self._next_line = 0.0
        self._told = False

    def left(self) -> float:
        return self._deadline - self._clock()

    @property
    def waited(self) -> float:
        return 0.0 if self._begun is None else self._clock() - self._begun

    def waits_for(self, owner: str) -> None:
        now = self._clock()
        self.owner = owner
        if self._begun is None:
            self._begun = now
            logger.info("waiting for %s, which compiles %.16s", owner, self._key)
        elif now >= self._next_line:
            logger.info(
                "waiting for %s, which compiles %.16s: %.0f s, at most %.0f s",
                owner, self._key, self.waited, self._seconds,
            )  # fmt: skip
        else:
            return
        self._next_line = now + LINE_SECONDS

    def in_vain(self, level: str, why: str) -> None:
        self._told = True
        logger.info(
            "compiling %.16s without a lease (%s), after waiting %.1f s: %s", self._key, level, self.waited, why
        )

    def over(self) -> None:
        if self._begun is not None and not self._told:
            logger.info("waited %.1f s for %s, which compiled %.16s", self.waited, self.owner, self._key)


class _Contact:
    """Asks one level, and bridges its silences.

    After a silence the owner may be alive although the level knows nothing of it any more (a Redis that was
    restarted): its next heartbeat, due within a third of the lease's time, will say so. Until then the level is
    only asked who has the lease.
    """

    def __init__(self, level: Leases, clock: Clock) -> None:
        self._level = level
        self._clock = clock
        self._answered = False
        self._silent_since: float | None = None
        self._peek_until: float | None = None

    def ask(self, key: str, waits: bool) -> Lease | Held | None:
        """None: nobody can be told to have it, but it cannot be taken now. Raises StoreUnavailable to go on without.

        A level that answers and refuses (a Redis that is full) will not tell when the owner is done, either.
        """
        before = self._clock()
        peeking = self._silent_since is not None or (self._peek_until is not None and before < self._peek_until)
        try:
            answer = self._level.peek(key) if peeking else self._level.acquire(key, waits=waits)
        except StoreSilent:
            if self._silent_since is None:
                self._silent_since = before
            if not self._answered or self._clock() - self._silent_since >= self._level.seconds:
                raise
            return None
        self._answered = True
        if self._silent_since is not None:
            self._silent_since, self._peek_until = None, self._clock() + self._level.seconds / 3
        if isinstance(answer, Held):
            self._peek_until = None
        return answer
