"""The journal as the tools that explain need it: the last run, and what became of a key before. Prints nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from warmgraph.cache import EventDict
from warmgraph.cache import read as read_journal

Process = tuple[str, int, float | None]  # host, pid, when it started

# Ranks of one job begin within this many seconds of each other's events.
_SLACK = 300.0
_THERE = ("hit", "miss")  # after either the result is in the store, unless it could not be written
# A publish ends this long after its event, at most, in the background; and clocks differ.
_PUBLISHED = 30.0


@dataclass(slots=True)
class _Span:
    """When a process journaled first and last. ranked: it is one of a job's."""

    first: float
    last: float
    ranked: bool


@dataclass(frozen=True, slots=True)
class Run:
    """The events of one process, or of one job's ranks, as they came. processes: which."""

    events: list[EventDict]
    processes: frozenset[Process]


@dataclass(slots=True)
class Past:
    """Of some keys, when each was in the store, as the journal knows: (unix seconds, outcome, host)."""

    keys: frozenset[str]
    seen: dict[str, list[tuple[float, str, str]]] = field(default_factory=dict)

    def add(self, event: EventDict) -> None:
        key = event["key"]
        if key in self.keys and event["outcome"] in _THERE:
            self.seen.setdefault(key, []).append((event["time"], event["outcome"], event["host"]))

    def before(self, event: EventDict) -> tuple[float, str, str] | None:
        """The last time before this event's lookup; ranks that compiled one key side by side are no such time."""
        begun = event["time"] - sum(event["seconds"].values()) - _PUBLISHED
        return max((one for one in self.seen.get(event["key"], []) if one[0] < begun), default=None)


def last_run(place: Path, since: float | None = None) -> Run:
    """The newest process in the journal; where it is a rank, all ranks that ran beside it.

    since: instead, all events younger than this (unix seconds).
    """
    if since is not None:
        events = sorted(read_journal(place, since), key=lambda event: event["time"])
        return Run(events, frozenset(process_of(event) for event in events))
    spans: dict[Process, _Span] = {}
    for event in read_journal(place):
        span = spans.setdefault(process_of(event), _Span(event["time"], event["time"], event["rank"] is not None))
        span.first, span.last = min(span.first, event["time"]), max(span.last, event["time"])
    chosen = _together(spans)
    events = [event for event in read_journal(place) if process_of(event) in chosen]
    return Run(sorted(events, key=lambda event: event["time"]), chosen)


def past_of(place: Path, keys: Iterable[str]) -> Past:
    """What the whole journal knows of these keys."""
    past = Past(frozenset(keys))
    for event in read_journal(place) if past.keys else ():
        past.add(event)
    return past


def select(place: Path, wanted: Callable[[EventDict], bool]) -> list[EventDict]:
    """The events that are wanted, newest first."""
    return sorted(filter(wanted, read_journal(place)), key=lambda event: -event["time"])


def process_of(event: EventDict) -> Process:
    return event["host"], event["pid"], event["started"]


def _together(spans: dict[Process, _Span]) -> frozenset[Process]:
    if not spans:
        return frozenset()
    newest = max(spans, key=lambda process: spans[process].last)
    if not spans[newest].ranked:
        return frozenset({newest})
    chosen, first = {newest}, spans[newest].first
    # From the last to the first, so that a chain of ranks that overlap is followed back to its beginning.
    for process, span in sorted(spans.items(), key=lambda item: -item[1].last):
        if span.ranked and span.last >= first - _SLACK:
            chosen.add(process)
            first = min(first, span.first)
    return frozenset(chosen)
