"""What this host has and the shared tier lost is given back; and in a job, who hits waits for ranks that compile.

One thread, alive only while something is open, asks for all hits of the folder at once: is the entry there, and (in a
job) who has its lease. What is not there is published under that lease, with the seal that it has here, by whichever
host gets the lease first. So nobody runs ahead of a rank that has yet to come: that one will find the entry. And
whoever found nothing before has the lease by the time that it is asked for, and is waited for. No notes are kept
beside the leases, which end with their owners: a job that is started again meets nothing of its last run.

Nothing here fails: a shared tier that is not usable ends every wait, and is asked anew with the next hit.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ..format.seal import Verifier, is_believed
from ..process.exits import ending
from ..process.forks import reset_in_child
from ..process.writer import Writer
from ..stores.circuit_breaker import Health, Use
from ..typing import Entry, Held, Lease, Leases, Store, StoreUnavailable
from .reading import Complete, read_complete

if TYPE_CHECKING:
    from ..stores.redis import Presence

logger = logging.getLogger(__package__)

_REMEMBERED = 10_000
_AT_ONCE = 256  # entries asked for in one round trip
_FIRST_PAUSE, _LAST_PAUSE = 0.05, 0.5  # seconds between two looks at whoever is waited for
_GRACE = 60.0  # seconds after a hit in which whoever hit may begin to wait
_TICK = 0.1


class Waited(Struct, frozen=True):
    """owner: for whom, one line for people. in_vain: it was as long as it may be, and the owner still compiles."""

    owner: str
    seconds: float
    in_vain: bool


class _Open(Struct, eq=False):
    """A hit that is asked about. until: when it is no longer (clock). owner: who is waited for."""

    entry: Entry
    sealed: bytes
    near: Store
    until: float
    owner: str | None = None
    settled: threading.Event = field(default_factory=threading.Event)


class Healing:
    """Of one cache and its shared tier. believed: whose seals that tier's readers trust. readonly: it is never written.

    job: of several ranks, as `ranks_of` tells it, or None. skew: the most seconds that a rank waits in `agree`; None:
    as long as whoever calls says.
    """

    def __init__(
        self,
        shared: Presence,
        leases: Leases,
        health: Health,
        *,
        believed: Verifier,
        readonly: bool,
        job: str | None = None,
        skew: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shared = shared
        self._leases = leases
        self._health = health
        self._believed = believed
        self._readonly = readonly
        self._job = None if skew == 0 else job
        self._skew = skew
        self._clock = clock
        self._writer = Writer(max_jobs=2)
        self.after_fork_in_child()
        reset_in_child(self)

    def after_fork_in_child(self) -> None:
        """What the parent asks is the parent's affair; what it knows is true here as well."""
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], _Open | None] = {}
        self._open: list[_Open] = []
        self._later: list[_Open] = []
        self._fresh = threading.Event()
        self._gave_up = False

    def know(self, entry: Entry) -> None:
        """It is there, or will be: this process has it from there, or publishes it."""
        self._note(entry, None)

    def hit(self, entry: Entry, sealed: bytes, near: Store) -> None:
        """Ask about a hit, once per process. near: the store that it came from. Waits for nothing."""
        if self._readonly and self._job is None:
            return
        self._note(entry, _Open(entry, sealed, near, self._clock() + _GRACE))

    def agree(self, entry: Entry, seconds: Callable[[], float]) -> Waited | None:
        """In a job: wait until no other rank compiles what this one hit. None: there was nobody to wait for.

        seconds: the longest that this may take, where no setting says. Who waited in vain once waits no more.
        """
        one = self._known.get((entry.key, entry.variant))
        if self._job is None or one is None or one.settled.is_set() or self._gave_up:
            return None
        limit = seconds() if self._skew is None else self._skew
        begin, told = self._clock(), False
        one.until = begin + limit
        while not one.settled.wait(min(_TICK, max(0.0, one.until - self._clock()))):
            if one.owner is not None and not told:
                told = True
                logger.info("hit %.16s, and waiting for %s to have it: at most %.0f s", entry.key, one.owner, limit)
            if self._clock() >= one.until:
                break
        waited = self._clock() - begin
        if one.owner is None:
            return None
        in_vain = waited >= limit
        if in_vain:
            self._gave_up = True
            logger.warning(
                "waited %.1f s for %s, which still compiles %.16s; from now on this process waits for nobody",
                waited, one.owner, entry.key,
            )  # fmt: skip
        return Waited(one.owner, waited, in_vain)

    def set_aside(self, key: str, variant: str, generation: int) -> None:
        """Nobody is to bring back what was sealed until then. In the background, please: this waits for the network."""
        if self._readonly or not self._health.usable(self._shared.name, "write"):
            return
        try:
            self._shared.note_set_aside(key, variant, generation)
        except StoreUnavailable as error:
            self._health.failed(self._shared.name, "write", error)

    # -- in the background

    def _note(self, entry: Entry, one: _Open | None) -> None:
        with self._lock:
            if (entry.key, entry.variant) in self._known:
                return
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[entry.key, entry.variant] = one
            if one is None:
                return
            self._open += [*self._later, one]
            self._later.clear()
        self._fresh.set()
        if not self._writer.submit(self._serve) and not self._writer.pending:  # no thread can be had
            one.settled.set()

    def _serve(self) -> None:
        pause = _FIRST_PAUSE
        while batch := self._still_open():
            self._fresh.clear()
            try:
                for at in range(0, len(batch), _AT_ONCE):
                    self._look(batch[at : at + _AT_ONCE])
            except BaseException:
                for one in batch:  # whatever this is, nobody is to wait for it
                    one.settled.set()
                raise
            if self._still_open():
                self._fresh.wait(pause)
                pause = min(pause * 1.5, _LAST_PAUSE)

    def _still_open(self) -> list[_Open]:
        with self._lock:
            for one in self._open:
                if one.settled.is_set():
                    self._known[one.entry.key, one.entry.variant] = None
            self._open = [one for one in self._open if not one.settled.is_set()]
            return self._open[:]

    def _look(self, batch: list[_Open]) -> None:
        try:
            self._check("read")
            wanted = [(one.entry.key, one.entry.variant, one.sealed) for one in batch]
            answers = self._shared.find(wanted, leases=self._job is not None)
        except StoreUnavailable as error:
            self._put_off(batch, "read", error)
            return
        for number, (one, found) in enumerate(zip(batch, answers, strict=True)):
            try:
                owner = self._owner(one, found.present, found.held)
            except StoreUnavailable as error:
                self._put_off(batch[number:], "write", error)
                return
            if owner is None or self._job is None or self._clock() >= one.until or ending():
                one.settled.set()
            else:
                one.owner = owner

    def _owner(self, one: _Open, present: bool, held: Held | None) -> str | None:
        """Who is to be waited for; None once there is nobody. Heals what is not there."""
        if held is not None and held.failed:
            held = None
        if present:  # who compiles it all the same, in this job, wants another variant, or cannot use this one
            return held.owner if held is not None and held.job == self._job else None
        # Whoever has the lease, be it in another job: ranks of this one that come now stand behind it.
        if held is not None or self._readonly or not is_believed(one.entry.key, one.sealed, self._believed):
            return None if held is None else held.owner
        self._check("write")
        lease = self._leases.acquire(one.entry.key)
        if isinstance(lease, Held):
            return None if lease.failed else lease.owner
        self._heal(one, lease)
        return None

    def _heal(self, one: _Open, lease: Lease) -> None:
        key, variant = one.entry.key, one.entry.variant
        try:
            [found] = self._shared.find([(key, variant, one.sealed)])  # another may have been faster
            if found.present or self._shared.is_set_aside(key, variant, one.sealed):
                return
            whole = read_complete(one.near, key, variant, one.sealed, lambda entry: True, self._believed)
            if not isinstance(whole, Complete):  # evicted since
                return
            self._shared.put(key, variant, one.sealed, whole.packed.blobs)
            if self._shared.is_set_aside(key, variant, one.sealed):  # meanwhile
                self._shared.remove(key, variant, "set aside while it was brought back", one.sealed)
            logger.debug("%.16s (%s) is given back to %s", key, variant, self._shared.name)
        finally:
            lease.release(ok=True)

    def _check(self, use: Use) -> None:
        if not self._health.usable(self._shared.name, use):
            raise _Sick

    def _put_off(self, batch: list[_Open], use: Use, error: StoreUnavailable) -> None:
        """Nobody waits; asked again with the next hit."""
        if not isinstance(error, _Sick):
            self._health.failed(self._shared.name, use, error)
        for one in batch:
            one.settled.set()
        with self._lock:
            again = [_Open(one.entry, one.sealed, one.near, -math.inf) for one in batch]
            self._later = (self._later + again)[-_REMEMBERED:]


class _Sick(StoreUnavailable):
    """The shared tier is left alone for now, and that was told before."""
