"""Which tiers are sick, since when, and who was told: a circuit breaker per tier. It decides nothing about lookups.

A tier that failed is left alone, for reading or for writing. A local one is tried again after a minute, by
whoever comes next. One over a network has a *probe*: nobody waits for it again until a background thread has
seen it answer, so that a silent server costs a process one deadline and not one each minute. Each further
failure within the hour doubles what it must wait after that, up to a minute (a server that answers probes and
nothing else). The circuit breaker
is Nygard's ("Release It!", 2007); that the half-open try is never a caller's is ours.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct

from ..process.forks import fork_safe_lock, reset_in_child
from ..typing import StoreSilent, StoreUnavailable

logger = logging.getLogger(__package__)

Use = Literal["read", "write"]
Probe = Callable[[Use], None]  # raises StoreUnavailable; called in the background

RETRY_SECONDS = 60.0
FIRST_PROBE_SECONDS = 1.0
_LONGEST_PROBE_SECONDS = 30.0
_LONGEST_PENALTY_SECONDS = 64.0
_FORGET_SECONDS = 3600.0
PAUSE_SECONDS = 2.0  # that a server may take for a fork, a failover within one host, a stalled disk
_GRACE_SECONDS = 0.09  # with the deadline of the first request, what a dead server may cost a process
_TICK = 0.02
_AGAIN_SECONDS = 60.0

_told: set[tuple[str, str]] = set()  # (tier, use) warned of in this process, over all caches


class _Sickness(Struct):
    """error: why. since, until: when it began, when to try or probe next (clock). pause: seconds to the next probe.
    probing: one runs.
    """

    error: StoreUnavailable
    since: float
    until: float
    pause: float
    probing: bool = False


class Health:
    """One warning per tier and use in the life of a process; later failures go to the debug log.

    probes: by tier. clock: seconds, for tests.
    """

    def __init__(self, probes: Mapping[str, Probe] | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        # Told of each outage as it begins: (tier, why). Weak, since who is told may hold stores that hold us.
        self.on_outage: weakref.WeakMethod[Callable[[str, str], None]] | None = None
        self._clock = clock
        self._probes = dict(probes or {})
        self._lock = fork_safe_lock()
        self._sick: dict[tuple[str, Use], _Sickness] = {}
        self._answered: set[str] = set()  # tiers that were read once
        self._bridged: dict[str, float] = {}  # when a tier was back, of those waited for
        self._grace = _GRACE_SECONDS
        self._failures: dict[tuple[str, Use], tuple[int, float]] = {}  # of callers who waited: how many, the last
        reset_in_child(self)
        _everyone.add(self)

    def after_fork_in_child(self) -> None:
        """The probing thread stayed in the parent."""
        for sick in self._sick.values():
            sick.probing = False

    def usable(self, tier: str, use: Use) -> bool:
        """Whether to try `tier` now. Does not wait; may start a probe."""
        if use == "write" and tier in self._probes and not self.usable(tier, "read"):
            return False  # who does not answer reads will not answer writes
        with self._lock:
            sick = self._sick.get((tier, use))
            if sick is None:
                return True
            due = self._clock() >= sick.until
            if tier not in self._probes:
                return due
            if not due or sick.probing:
                return False
            sick.probing = True
        self._start_probe(tier, use)
        return False

    def failed(self, tier: str, use: Use, error: StoreUnavailable) -> None:
        """Someone waited for `tier` in vain."""
        if isinstance(error, StoreSilent) and tier in self._probes:
            use = "read"  # who does not answer one will not answer the other: nobody is to wait for both
        with self._lock:
            now = self._clock()
            known = (tier, use) in self._sick
            if not (known and tier in self._probes):  # several threads may wait for one and the same silence
                count, last = self._failures.get((tier, use), (0, now))
                count = count + 1 if now - last < _FORGET_SECONDS else 1
                self._failures[tier, use] = count, now
                penalty = min(_LONGEST_PENALTY_SECONDS, FIRST_PROBE_SECONDS * 2 ** min(count - 1, 20))
                pause = penalty if tier in self._probes else RETRY_SECONDS
                self._sick[tier, use] = _Sickness(error, now, now + pause, FIRST_PROBE_SECONDS)
            first = (tier, use) not in _told
            _told.add((tier, use))
        message = str(error)
        told = self.on_outage() if self.on_outage is not None and not known else None
        if told is not None:
            told(tier, message)
        if not first:
            logger.debug("cache tier %s: %s", tier, message)
            return
        what = "it is left out" if use == "read" else "nothing new is kept there"
        logger.warning("cache tier %s is unavailable and %s: %s", tier, what, message)

    def worked(self, tier: str, use: Use) -> None:
        with self._lock:
            self._sick.pop((tier, use), None)
            if use == "read":
                self._answered.add(tier)

    def bridge(self, tier: str) -> None:
        """Before work that is dear: wait while a silent tier may be back at once. Returns when it answers, or may not.

        One that has answered this process may only have paused: that is waited for, once in each outage. Not where it
        was waited for a moment ago: it answers probes, and no look-up. One that never answered is not waited for but
        while a probe is under way, for a moment in the life of a process.
        """
        while (left := self._bridgeable(tier)) > 0:
            if tier not in self._answered:
                self._grace -= _TICK
            elif self._probe_once(tier, "read") is None:
                self._bridged[tier] = self._clock()
                return
            time.sleep(min(left, _TICK))

    def _bridgeable(self, tier: str) -> float:
        """How many seconds `bridge` may still take."""
        with self._lock:
            sick = self._sick.get((tier, "read"))
            if sick is None or tier not in self._probes or not isinstance(sick.error, StoreSilent):
                return 0.0
            if tier in self._answered:
                if sick.since - self._bridged.get(tier, -_AGAIN_SECONDS) < _AGAIN_SECONDS:
                    return 0.0
                return sick.since + PAUSE_SECONDS - self._clock()
            return self._grace if sick.probing else 0.0

    def error(self, tier: str, use: Use) -> StoreUnavailable:
        """Why `tier` is not used."""
        with self._lock:
            uses: tuple[Use, ...] = ("read", "write") if use == "write" and tier in self._probes else (use,)
            found = next((self._sick[tier, one].error for one in uses if (tier, one) in self._sick), None)
        # A new one: an exception that is raised again and again collects tracebacks.
        return StoreUnavailable("it works again") if found is None else type(found)(*found.args)

    def report(self) -> dict[str, str]:
        """The last failure of each tier that has not worked since. Who asks may start a probe, as who looks up."""
        for tier, use in list(self._sick):
            self.usable(tier, use)
        report: dict[str, str] = {}
        with self._lock:
            for (tier, _), sick in sorted(self._sick.items()):
                known, message = report.get(tier), str(sick.error)
                report[tier] = message if known in (None, message) else f"{known}; {message}"
        return report

    def _start_probe(self, tier: str, use: Use) -> None:
        thread = threading.Thread(target=self._probe, args=(tier, use), name=f"warmgraph-probe-{tier}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the interpreter is shutting down, or no thread can be had
            self._put_off(tier, use, None)

    def _probe(self, tier: str, use: Use) -> None:
        if (error := self._probe_once(tier, use)) is not None:
            self._put_off(tier, use, error)

    def _probe_once(self, tier: str, use: Use) -> StoreUnavailable | None:
        try:
            self._probes[tier](use)
        except StoreUnavailable as error:
            return error
        logger.info("cache tier %s answers again", tier)
        self.worked(tier, use)
        return None

    def _put_off(self, tier: str, use: Use, error: StoreUnavailable | None) -> None:
        with self._lock:
            sick = self._sick.get((tier, use))
            if sick is None:
                return
            sick.error = error or sick.error
            sick.probing = False
            sick.until = self._clock() + sick.pause
            sick.pause = min(_LONGEST_PROBE_SECONDS, sick.pause * 2)


_everyone: weakref.WeakSet[Health] = weakref.WeakSet()


def sick_tiers() -> dict[str, str]:
    """By tier, why it is not used, over all caches of this process."""
    found: dict[str, str] = {}
    for health in list(_everyone):
        found |= health.report()
    return found
