"""The audit's result as values, and as JSON (version 1). Every table is bounded. Not how it is counted (`counting`).

Times are Unix seconds, durations seconds. Whatever comes from events is untrusted text, cut to a length: never to be
shown as HTML, never raw on a terminal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

VERSION = 1


@dataclass(frozen=True, slots=True)
class Filters:
    """Which events count: all that fit each of these; an empty one lets everything pass. since, until: by time."""

    since: float | None = None
    until: float | None = None
    hosts: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    functions: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """Where the events came from. kind: `folder` or `stream`. skipped: lines that were no events."""

    kind: str
    name: str
    events: int = 0
    skipped: int = 0
    first: float | None = None
    last: float | None = None
    hosts: int = 0
    processes: int = 0


@dataclass(frozen=True, slots=True)
class Totals:
    """hit_rate: hits / (hits + misses), None without any. compile_seconds: a part of seconds_spent."""

    hits: int = 0
    misses: int = 0
    bypasses: int = 0
    failed: int = 0
    verified: int = 0
    skipped: int = 0
    hit_rate: float | None = None
    seconds_saved: float = 0.0
    seconds_spent: float = 0.0
    compile_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class TierRow:
    tier: str
    hits: int
    bytes: int
    seconds_saved: float


@dataclass(frozen=True, slots=True)
class SignerRow:
    """Whose signature what was loaded bears; what this host compiled without a key is not listed."""

    signer: str
    function: str
    hits: int


@dataclass(frozen=True, slots=True)
class ReasonRow:
    """Why outcomes were not plain hits, by count."""

    outcome: str
    reason: str
    meaning: str
    advice: str | None
    count: int
    seconds_spent: float


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """seconds: of all outcomes; then by outcome."""

    phase: str
    seconds: float
    hit: float
    miss: float
    bypass: float
    failed: float


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """keys: how many different ones."""

    function: str | None
    file: str | None
    line: int | None
    hits: int
    misses: int
    bypasses: int
    failed: int
    skipped: int
    seconds_saved: float
    seconds_spent: float
    compile_seconds: float
    bytes: int
    keys: int


@dataclass(frozen=True, slots=True)
class Who:
    """One of those who compiled a key."""

    host: str
    pid: int
    rank: int | None
    time: float
    reason: str | None


@dataclass(frozen=True, slots=True)
class AgainRow:
    """A key that was compiled more than once. who: the first of them."""

    key: str
    function: str | None
    file: str | None
    line: int | None
    count: int
    seconds: float
    who: tuple[Who, ...]


@dataclass(frozen=True, slots=True)
class CauseRow:
    """Bypasses, or CUDA graphs that were skipped, of one cause."""

    reason: str
    function: str | None
    file: str | None
    line: int | None
    detail: str | None
    count: int
    meaning: str
    advice: str | None


@dataclass(frozen=True, slots=True)
class MissRow:
    """Misses of one cause. differs: the parts in which the nearest entry is different. key: the latest."""

    reason: str
    function: str | None
    file: str | None
    line: int | None
    detail: str | None
    differs: tuple[str, ...] | None
    nearest: str | None
    key: str | None
    count: int
    seconds_spent: float
    meaning: str
    advice: str | None


@dataclass(frozen=True, slots=True)
class SkewRow:
    """Ranks of a job that hit, and waited for one that compiled the same. waited: for whom, and whether in vain.

    seconds: of all of them; longest: of one.
    """

    job: str | None
    function: str | None
    file: str | None
    line: int | None
    waited: str | None
    count: int
    seconds: float
    longest: float


@dataclass(frozen=True, slots=True)
class Bucket:
    """From `begin` up to `end`; in JSON `from` and `to`."""

    begin: float
    end: float
    hits: int = 0
    misses: int = 0
    bypasses: int = 0
    failed: int = 0
    seconds_saved: float = 0.0
    seconds_spent: float = 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """One event of a process. at: when it ended. phases: (name, seconds) in their order."""

    at: float
    outcome: str
    reason: str | None
    function: str | None
    key: str | None
    phases: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """started: when it began to use the cache; begin, end: of its first and last event's work."""

    host: str
    pid: int
    rank: int | None
    job: str | None
    started: float | None
    begin: float
    end: float
    hits: int
    misses: int
    bypasses: int
    failed: int
    seconds: Mapping[str, float]
    events: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class HealthRow:
    """Outages of a tier: how many, seen by how many hosts."""

    tier: str
    detail: str | None
    count: int
    hosts: int


@dataclass(frozen=True, slots=True)
class StoredFunction:
    function: str | None
    entries: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StoreSummary:
    entries: int
    bytes: int
    by_function: tuple[StoredFunction, ...]


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry of the store, as far as an audit needs it. created: None when the entry does not say."""

    key: str
    variant: str
    function: str | None
    bytes: int
    created: float | None
    compile_seconds: float | None


@dataclass(frozen=True, slots=True)
class Document:
    """An audit. `*_left_out`: rows beyond what a table holds; their numbers are in the totals all the same.

    store, never_hit: None when no store was looked at. never_hit: the largest entries that no event here hit.
    """

    warmgraph: str
    generated: float
    filters: Filters
    source: Source
    totals: Totals
    tiers: tuple[TierRow, ...] = ()
    signers: tuple[SignerRow, ...] = ()
    reasons: tuple[ReasonRow, ...] = ()
    phases: tuple[PhaseRow, ...] = ()
    functions: tuple[FunctionRow, ...] = ()
    functions_left_out: int = 0
    compiled_again: tuple[AgainRow, ...] = ()
    compiled_again_left_out: int = 0
    keys_left_out: int = 0
    bypasses: tuple[CauseRow, ...] = ()
    bypasses_left_out: int = 0
    misses: tuple[MissRow, ...] = ()
    misses_left_out: int = 0
    skips: tuple[CauseRow, ...] = ()
    skips_left_out: int = 0
    skews: tuple[SkewRow, ...] = ()
    skews_left_out: int = 0
    over_time: tuple[Bucket, ...] = ()
    processes: tuple[ProcessRow, ...] = ()
    processes_left_out: int = 0
    health: tuple[HealthRow, ...] = ()
    store: StoreSummary | None = None
    never_hit: tuple[StoredEntry, ...] | None = None
    never_hit_count: int = 0
    version: int = field(default=VERSION)

    def as_json(self) -> dict[str, Any]:
        """Plain values, `version` first; the same names as here, but for `from` and `to` in `over_time`."""
        plain = asdict(self, dict_factory=_with_lists)
        plain["over_time"] = [{"from": row.pop("begin"), "to": row.pop("end"), **row} for row in plain["over_time"]]
        return {"version": plain.pop("version"), **plain}


def _with_lists(items: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: _listed(value) for name, value in items}


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value
