"""What monitoring counts: sums that only grow, under names from fixed lists. Not how they are written (`metrics`).

A restarted server sums up the journal anew. Meanwhile its oldest events may have gone (30 days of a folder, the last
100,000 of a stream), and a counter that falls reads as a flood of new events. So sums are kept in a file and joined
with what is read anew: each is at least what it was. Only what happened while nobody served can be missed then.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warmgraph.cache import EventDict, Outcome, Reason

# Whatever else an event says is counted as OTHER: who writes a journal must not be able to fill a monitoring database.
OTHER = "other"
REASONS = frozenset(reason.value for reason in Reason)
TIERS = frozenset({"memory", "disk", "redis"})
PHASES = frozenset({"hash", "fetch", "load", "wait", "compile", "publish"})
OUTCOMES = frozenset(outcome.value for outcome in Outcome)

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
_VERSION = 1
_SEPARATOR = "/"  # in no name of the lists above


@dataclass(slots=True)
class Sums:
    """events: by `outcome/reason`. hits, outages: by tier. phases: by `phase/outcome`; how many took up to each of
    BUCKETS seconds and no less, those that took longer, and the seconds in all."""

    events: dict[str, float] = field(default_factory=dict)
    hits: dict[str, float] = field(default_factory=dict)
    outages: dict[str, float] = field(default_factory=dict)
    saved: dict[str, float] = field(default_factory=lambda: {"": 0.0})
    phases: dict[str, list[float]] = field(default_factory=dict)

    def add(self, event: EventDict) -> None:
        """Count an event as `cache` decodes it."""
        outcome = _known(event["outcome"], OUTCOMES)
        reason = event["reason"]
        _one_more(self.events, f"{outcome}{_SEPARATOR}{'' if reason is None else _known(reason, REASONS)}")
        if outcome == Outcome.HIT:
            _one_more(self.hits, _known(event["tier"], TIERS))
            self.saved[""] += event["seconds_saved"] or 0.0
        if outcome == Outcome.SICK:
            _one_more(self.outages, _known(event["tier"], TIERS))
        for phase, seconds in event["seconds"].items():
            self._timed(f"{_known(phase, PHASES)}{_SEPARATOR}{outcome}", seconds)

    def _timed(self, name: str, seconds: float) -> None:
        row = self.phases.setdefault(name, [0.0] * (len(BUCKETS) + 2))
        row[bisect_left(BUCKETS, seconds)] += 1
        row[-1] += seconds

    def join(self, earlier: Sums) -> None:
        """Make each sum at least what it was."""
        for name in ("events", "hits", "outages", "saved"):
            mine, theirs = getattr(self, name), getattr(earlier, name)
            mine.update({key: max(mine.get(key, 0.0), value) for key, value in theirs.items()})
        for key, row in earlier.phases.items():
            now = self.phases.get(key, [0.0] * len(row))
            self.phases[key] = [max(pair) for pair in zip(now, row, strict=True)]


def save(sums: Sums, path: Path) -> None:
    """In one step. Raises OSError."""
    plain = {name: getattr(sums, name) for name in Sums.__slots__}
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(json.dumps({"version": _VERSION, **plain}))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def load(path: Path) -> Sums | None:
    """None where there is nothing, or nothing of ours: then counting begins anew."""
    try:
        plain = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(plain, dict) or plain.get("version") != _VERSION:
        return None
    found: dict[str, Any] = {name: plain.get(name) for name in Sums.__slots__}
    return Sums(**found) if _is_whole(found) else None


def _is_whole(found: Mapping[str, Any]) -> bool:
    tables = list(found.values())
    if not all(isinstance(table, dict) for table in tables) or "" not in found["saved"]:
        return False
    rows = found["phases"].values()
    if not all(isinstance(row, list) and len(row) == len(BUCKETS) + 2 for row in rows):
        return False
    numbers = [number for name in ("events", "hits", "outages", "saved") for number in found[name].values()]
    return all(
        isinstance(number, (int, float)) and not isinstance(number, bool) and 0 <= number < 1e18
        for number in (*numbers, *(number for row in rows for number in row))
    ) and all(len(name) < 100 for table in tables for name in table)


def split(name: str) -> tuple[str, str]:
    """The two labels of a sum."""
    first, _, second = name.partition(_SEPARATOR)
    return first, second


def _known(name: object, names: frozenset[str]) -> str:
    return name if isinstance(name, str) and name in names else OTHER


def _one_more(table: dict[str, float], name: str) -> None:
    table[name] = table.get(name, 0.0) + 1
