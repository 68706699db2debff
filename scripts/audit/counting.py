"""From events to an audit, one event at a time and in bounded memory. Reads nothing, prints nothing.

Every event is in the totals, however many there are; the tables hold so many rows, and say how many they left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from warmgraph.cache import EventDict

from .document import Document, Filters, Source, StoredEntry, Who
from .tables import Rows, Sums, Timeline, Waits

Place = tuple[str | None, str | None, int | None]  # function, file, line

_Who = tuple[str, int, int | None, float, str | None]  # host, pid, rank, time, reason

FUNCTION, FILE, DETAIL, HOST, KEY, WORD = 200, 300, 1000, 64, 80, 40  # characters
OTHER = "other"
_WITH_REASON = frozenset({"miss", "bypass", "failed", "skipped"})
_EARLIEST = 1_577_836_800.0  # 2020: older than any event
_DAY = 86_400.0
_KEYS, _PAIRS = 200_000, 400_000
_WHO, _STEPS, _DETAILED, _PHASES = 20, 60, 600, 40


@dataclass(slots=True)
class Compiled:
    """How often a key was compiled, and by whom first."""

    place: Place = (None, None, None)
    count: int = 0
    seconds: float = 0.0
    who: tuple[_Who, ...] = ()

    def add(self, who: _Who) -> None:
        """Those who were first, in whatever order journals give them: a folder's come host by host."""
        if len(self.who) < _WHO:
            self.who = (*self.who, who)
        elif who[3] < (latest := max(self.who, key=_when))[3]:
            self.who = (*(one for one in self.who if one is not latest), who)


@dataclass(slots=True)
class Cause:
    count: int = 0
    spent: float = 0.0
    key: str | None = None


@dataclass(slots=True)
class Outages:
    count: int
    hosts: set[str]


class Function(Sums):
    """keys: as hashes, which are a tenth of their size."""

    __slots__ = ("keys", "place")

    def __init__(self) -> None:
        super().__init__()
        self.place: Place = (None, None, None)
        self.keys: set[int] = set()


class Process(Sums):
    """steps: its first events (None while too many other processes cost more)."""

    __slots__ = ("begin", "end", "job", "rank", "seconds", "steps")

    def __init__(self) -> None:
        super().__init__()
        self.rank: int | None = None
        self.job: str | None = None
        self.begin = self.end = 0.0
        self.seconds: dict[str, float] = {}
        self.steps: list[tuple[Any, ...]] | None = None


class Auditor:
    """Add events as `cache.read` gives them; ask for the document at any time.

    store: the entries that are there, so that those that nobody hit are known.
    """

    def __init__(
        self,
        filters: Filters = Filters(),  # noqa: B008 (frozen)
        *,
        source: Source | None = None,
        store: Iterable[StoredEntry] | None = None,
    ) -> None:
        self.filters = filters
        self.source = source or Source("folder", "")
        named = zip(("host", "rank", "function", "namespace", "job"), _wanted(filters), strict=True)
        self._wanted = [(name, frozenset(values)) for name, values in named if values]
        self.events = 0
        self.sums = Sums()
        self.timeline = Timeline(_EARLIEST, time.time() + _DAY)
        self.tiers: Rows[str, Sums] = Rows(Sums, 20)
        self.signers: Rows[tuple[str, str], Sums] = Rows(Sums, 200)  # by signer and function
        self.reasons: Rows[tuple[str, str], Cause] = Rows(Cause, 100)
        self.phases: Rows[str, dict[str, float]] = Rows(dict, _PHASES)
        self.functions: Rows[Place, Function] = Rows(Function, 20_000)
        self.keys: Rows[str, Compiled] = Rows(Compiled, _KEYS)
        self.pairs = 0
        self.misses: Rows[tuple[Any, ...], Cause] = Rows(Cause, 20_000)
        self.bypasses: Rows[tuple[Any, ...], Cause] = Rows(Cause, 5_000)
        self.skips: Rows[tuple[Any, ...], Cause] = Rows(Cause, 5_000)
        self.skews: Rows[tuple[Any, ...], Waits] = Rows(Waits, 5_000)
        self.processes: Rows[tuple[str, int, float | None], Process] = Rows(Process, 20_000)
        self.detailed = 0
        self.hosts: Rows[str, Sums] = Rows(Sums, 10_000)
        self.health: Rows[tuple[str, str | None], Outages] = Rows(lambda: Outages(0, set()), 200)
        self.store = None if store is None else tuple(store)
        self.unhit = None if self.store is None else {one.key for one in self.store}

    def add(self, event: EventDict) -> None:
        """Count an event, if the filters let it pass."""
        outcome: str = event["outcome"]
        since, until = self.filters.since, self.filters.until
        if (since is not None and event["time"] < since) or (until is not None and event["time"] >= until):
            return
        if self.unhit and outcome in ("hit", "restored"):  # by anyone: the filters on who asks do not make it useless
            self.unhit.discard(event["key"])
        if self._wanted and not all(event[name] in values for name, values in self._wanted):
            return
        self.events += 1
        self.hosts.row(_cut(event["host"], HOST))
        if outcome == "sick":
            self._outage(event)
            return
        self._count(event, outcome)

    def document(self, *, skipped: int = 0) -> Document:
        """skipped: lines that were no events."""
        from .assembling import assemble

        timeline = self.timeline
        source = replace(
            self.source,
            events=self.events,
            skipped=skipped,
            first=timeline.first,
            last=timeline.last,
            hosts=len(self.hosts),
            processes=len(self.processes) + self.processes.left_out,
        )
        return assemble(self, source)

    # -- inside

    def _count(self, event: EventDict, outcome: str) -> None:
        # Looked up as they came first, and cut only when that finds nothing: most events are of rows that are there.
        seconds: Mapping[str, float] = event["seconds"]
        spent = sum(seconds.values())
        saved: float = (event["seconds_saved"] or 0.0) if outcome == "hit" else 0.0
        reason = event["reason"]
        if reason is not None or outcome in _WITH_REASON:
            reason = self._reason(outcome, _cut(reason, WORD) or OTHER, spent)
        compiled = seconds.get("compile", 0.0)
        self.sums.add(outcome, spent, saved)
        self.sums.compiled += compiled
        bucket = self.timeline.at(event["time"])
        if bucket is not None:
            bucket.add(outcome, spent, saved)
        tier = event["tier"]
        if tier is not None and outcome == "hit":
            row = self.tiers.get(tier) or self.tiers.row(_cut(tier, WORD))
            if row is not None:
                row.add(outcome, spent, saved)
                row.bytes += event["bytes"] or 0
        signer = event.get("signer")
        if signer is not None and outcome == "hit":
            by_signer = self.signers.row((_cut(signer, WORD), _cut(event["function"], FUNCTION) or "-"))
            if by_signer is not None:
                by_signer.add(outcome, spent, saved)
        for name, one in seconds.items():
            by_outcome = self.phases.get(name) or self.phases.row(name if len(name) <= WORD else OTHER)
            if by_outcome is not None:
                by_outcome[outcome] = by_outcome.get(outcome, 0.0) + one
        place: Place = (event["function"], event["file"], event["line"])
        function = self.functions.get(place)
        if function is None:
            place = (_cut(place[0], FUNCTION), _cut(place[1], FILE), place[2])
            function = self.functions.row(place)
        if function is not None:
            if not function.outcomes:
                function.place = place
            place = function.place  # one copy of these texts, however many rows name them
            function.add(outcome, spent, saved)
            function.compiled += compiled
            function.bytes += event["bytes"] or 0
            key = event["key"]
            if key is not None and (known := hash(key)) not in function.keys and self.pairs < _PAIRS:
                function.keys.add(known)
                self.pairs += 1
        self._process(event, outcome, reason, place[0], spent, saved)
        if outcome == "miss":
            self._miss(event, place, reason, spent, compiled)
        elif outcome == "hit" and "skew" in seconds:
            waits = self.skews.row((_cut(event["job"], HOST), *place, _cut(event["detail"], DETAIL)))
            if waits is not None:
                waits.add(seconds["skew"])
        elif outcome == "bypass" or outcome == "skipped":
            table = self.bypasses if outcome == "bypass" else self.skips
            _add(table.row((reason, *place, _cut(event["detail"], DETAIL))), spent)

    def _reason(self, outcome: str, reason: str, spent: float) -> str:
        """Counts it, and says under which name."""
        row = self.reasons.get((outcome, reason))
        if row is None and len(self.reasons) >= 90 and reason != OTHER:  # room is kept for `other` of each outcome
            return self._reason(outcome, OTHER, spent)
        _add(row or self.reasons.row((outcome, reason)), spent)
        return reason

    def _process(
        self, event: EventDict, outcome: str, reason: str | None, function: str | None, spent: float, saved: float
    ) -> None:
        name = (event["host"], event["pid"], event["started"])
        row = self.processes.get(name) or self.processes.row((_cut(name[0], HOST), *name[1:]))
        if row is None:
            return
        end: float = event["time"]
        begin = end - spent
        if not row.outcomes:
            row.rank, row.job = event["rank"], _cut(event["job"], HOST)
            row.begin, row.end = begin, end
        row.add(outcome, spent, saved)
        if begin < row.begin:
            row.begin = begin
        if end > row.end:
            row.end = end
        seconds = row.seconds
        for phase, one in event["seconds"].items():
            if phase in seconds:
                seconds[phase] += one
            elif len(seconds) < _PHASES:
                phase = phase if len(phase) <= WORD else OTHER
                seconds[phase] = seconds.get(phase, 0.0) + one
        if row.steps is None:
            if self.detailed >= _DETAILED:
                self._forget_steps()
            row.steps = []
            self.detailed += 1
        if len(row.steps) < _STEPS:
            phases = tuple(event["seconds"].items())[:_PHASES]
            row.steps.append((end, outcome, reason, function, _cut(event["key"], KEY), phases))

    def _forget_steps(self) -> None:
        """Of the half of the processes that have cost the least so far: what a start did matters where it took long."""
        detailed = sorted((row for row in self.processes.values() if row.steps is not None), key=lambda row: row.spent)
        for row in detailed[: len(detailed) // 2]:
            row.steps = None
            self.detailed -= 1

    def _miss(self, event: EventDict, place: Place, reason: str | None, spent: float, compiled: float) -> None:
        key = _cut(event["key"], KEY)
        differs = None if event["differs"] is None else tuple(part[:WORD] for part in event["differs"][:20])
        group = (reason, *place, _cut(event["detail"], DETAIL), differs, _cut(event["nearest"], KEY))
        cause = self.misses.row(group)
        if cause is not None:
            _add(cause, spent)
            cause.key = key
        known = None if key is None else self.keys.row(key)
        if known is None:
            return
        known.count += 1
        known.seconds += compiled
        known.place = place
        known.add((_cut(event["host"], HOST) or "", event["pid"], event["rank"], event["time"], reason))

    def _outage(self, event: EventDict) -> None:
        row = self.health.row((_cut(event["tier"], WORD) or OTHER, _cut(event["detail"], DETAIL)))
        if row is None:
            return
        row.count += 1
        if len(row.hosts) < 1000:
            row.hosts.add(_cut(event["host"], HOST) or "")


def audit_events(
    events: Iterable[EventDict],
    filters: Filters = Filters(),  # noqa: B008 (frozen)
    *,
    source: Source | None = None,
    store: Iterable[StoredEntry] | None = None,
) -> Document:
    """The audit of `events`, in one pass. Lines that were no events are counted by whoever reads (`events.skipped`)."""
    auditor = Auditor(filters, source=source, store=store)
    add = auditor.add
    for event in events:
        add(event)
    return auditor.document(skipped=getattr(events, "skipped", 0))


def who_of(known: Compiled) -> tuple[Who, ...]:
    return tuple(Who(*one) for one in sorted(known.who, key=_when))


def _when(who: _Who) -> float:
    return who[3]


def _wanted(filters: Filters) -> tuple[tuple[Any, ...], ...]:
    return filters.hosts, filters.ranks, filters.functions, filters.namespaces, filters.jobs


def _add(cause: Cause | None, spent: float) -> None:
    if cause is not None:
        cause.count += 1
        cause.spent += spent


def _cut(text: Any, limit: int) -> Any:
    """`text`, of which hostile events may have a megabyte, cut; None stays None."""
    return text if text is None or len(text) <= limit else text[: limit - 1] + "\N{HORIZONTAL ELLIPSIS}"
