"""Sums over events: of this process as it goes, or of a journal afterwards. Not the events themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from ..process.forks import fork_safe_lock, reset_in_child
from .events import Event, Outcome


class Counts(Struct, frozen=True):
    """hits by tier in `tiers`; misses, bypasses and failures by reason in `reasons`; seconds by phase.

    restored, traced: of frames; by reason why they were traced in `frames`.
    """

    hits: int = 0
    misses: int = 0
    bypasses: int = 0
    failures: int = 0
    verified: int = 0
    skipped: int = 0
    restored: int = 0
    traced: int = 0
    seconds_saved: float = 0.0
    tiers: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    frames: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


class Tally:
    """Adds up events. Thread-safe; a forked child starts from zero."""

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self.after_fork_in_child()
        reset_in_child(self)

    def after_fork_in_child(self) -> None:
        self._outcomes: Counter[str] = Counter()
        self._tiers: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._frames: Counter[str] = Counter()
        self._seconds: Counter[str] = Counter()
        self._seconds_saved = 0.0

    def add(self, event: Event) -> None:
        self._add(event.outcome, event.tier, event.reason, event.seconds_saved, event.seconds)

    def add_read(self, event: Mapping[str, object]) -> None:
        """Add an event as `read` gives it, which has checked its types."""
        tier, reason, saved = event.get("tier"), event.get("reason"), event.get("seconds_saved")
        seconds = event.get("seconds")
        self._add(
            Outcome(event["outcome"]),
            tier if isinstance(tier, str) else None,
            reason if isinstance(reason, str) else None,
            saved if isinstance(saved, (int, float)) else None,
            seconds if isinstance(seconds, Mapping) else {},
        )

    def counts(self) -> Counts:
        """The sums so far."""
        with self._lock:
            return Counts(
                hits=self._outcomes[Outcome.HIT],
                misses=self._outcomes[Outcome.MISS],
                bypasses=self._outcomes[Outcome.BYPASS],
                failures=self._outcomes[Outcome.FAILED],
                verified=self._outcomes[Outcome.VERIFIED],
                skipped=self._outcomes[Outcome.SKIPPED],
                restored=self._outcomes[Outcome.RESTORED],
                traced=self._outcomes[Outcome.TRACED],
                seconds_saved=self._seconds_saved,
                tiers=dict(self._tiers),
                reasons=dict(self._reasons),
                frames=dict(self._frames),
                seconds=dict(self._seconds),
            )

    def _add(
        self,
        outcome: Outcome,
        tier: str | None,
        reason: str | None,
        saved: float | None,
        seconds: Mapping[str, float],
    ) -> None:
        with self._lock:
            for phase, spent in seconds.items():
                self._seconds[phase] += spent  # type: ignore[assignment]  # a Counter of floats
            self._outcomes[outcome] += 1
            self._seconds_saved += saved or 0.0
            if outcome is Outcome.HIT and tier is not None:
                self._tiers[tier] += 1
            if outcome is not Outcome.HIT and reason is not None:
                table = self._frames if outcome is Outcome.TRACED else self._reasons
                table[str.__str__(reason)] += 1


def summarise(events: Iterable[Mapping[str, object]]) -> Counts:
    """The sums over events as `read` gives them."""
    tally = Tally()
    for event in events:
        tally.add_read(event)
    return tally.counts()
