"""This process's own totals: every event is counted here, whichever cache it went through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..process.writer import EXIT_SECONDS, flush_all
from ..stores.circuit_breaker import sick_tiers
from .counts import Counts, Tally
from .events import Event
from .journal import Journal

_tally = Tally()
_watchers: list[Callable[[Event], None]] = []


def record(journal: Journal | None, event: Event) -> None:
    """Count an event in this process and append it to `journal`, if there is one."""
    _tally.add(event)
    for watcher in _watchers:
        watcher(event)
    if journal is not None:
        journal.append(event)


def watch_events(watcher: Callable[[Event], None]) -> None:
    """Call `watcher` with each event of this process from now on. It is called where graphs are compiled: be quick."""
    _watchers.append(watcher)


def as_plain(counts: Counts) -> dict[str, Any]:
    """Counts under the names that scripts know: hits, misses, bypasses, failures, verified, seconds_saved, ..."""
    return {
        "hits": counts.hits,
        "misses": counts.misses,
        "bypasses": counts.bypasses,
        "failures": counts.failures,
        "verified": counts.verified,
        "skipped": counts.skipped,
        "restored": counts.restored,
        "traced": counts.traced,
        "seconds_saved": round(counts.seconds_saved, 3),
        "reasons": dict(counts.reasons),
        "frames": dict(counts.frames),
        "tiers": dict(counts.tiers),
        "seconds": {phase: round(spent, 6) for phase, spent in counts.seconds.items()},
    }


def stats() -> dict[str, Any]:
    """What the cache did in this process so far: outcomes, by reason and by tier; seconds saved, and spent by phase.

    sick: by tier, why it is not used at present. events_lost: how many did not get to the fleet's journal.
    """
    from ..stores.redis import events_lost  # imported late: 3 ms

    return as_plain(_tally.counts()) | {"sick": sick_tiers(), "events_lost": events_lost()}


def flush(timeout: float = EXIT_SECONDS) -> bool:
    """Wait until everything published by this process is written. False after `timeout` seconds."""
    return flush_all(timeout)
