"""The audit as sections of rows, for a terminal. Decides no numbers, and prints nothing itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from warmgraph.cache import Outcome

from ..output import ago, clock, percent, seconds, size
from .document import CauseRow, Document, MissRow, Who
from .wording import count, place

LEFT, RIGHT = "left", "right"


@dataclass(frozen=True, slots=True)
class Section:
    """columns: (name, side). more: rows that were left out."""

    title: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[object]]
    more: int = 0


def sections(document: Document, limit: int) -> Iterator[Section]:
    """What there is to say, each table with at most `limit` rows; empty ones are left out."""
    every = (_overview, _tiers, _signers, _reasons, _phases, _functions, _misses, _bypasses, _again, _skews, _skips)
    for make in (*every, _health, _stored, _never_hit):
        section = make(document)
        if section.rows:
            cut = section.rows[:limit] if section.title else section.rows
            yield Section(section.title, section.columns, cut, section.more + len(section.rows) - len(cut))


def _overview(document: Document) -> Section:
    totals, source = document.totals, document.source
    rate = "no lookups" if totals.hit_rate is None else percent(totals.hit_rate)
    rows: list[tuple[str, object]] = [
        ("journal", source.name),
        ("events", f"{source.events:,}, from {clock(source.first)} to {clock(source.last)}"),
        ("from", f"{count(source.hosts, 'host')}, {count(source.processes, 'process', 'es')}"),
        ("hits", f"{totals.hits:,} ({rate} of {totals.hits + totals.misses:,} lookups)"),
        ("misses", f"{totals.misses:,}"),
        ("bypasses", f"{totals.bypasses:,}"),
        ("failures", f"{totals.failed:,}"),
        ("saved", f"{seconds(totals.seconds_saved)} of compiling"),
        ("spent", f"{seconds(totals.seconds_spent)}, of which {seconds(totals.compile_seconds)} compiling"),
    ]
    if totals.verified:
        rows.insert(7, ("hits verified", _verified(document)))
    if totals.skipped:
        rows.insert(7, ("CUDA graphs skipped", f"{totals.skipped:,}"))
    return Section("", [("", LEFT), ("", LEFT)], rows)


def _skews(document: Document) -> Section:
    columns = [("job", LEFT), ("function", LEFT), ("ranks", RIGHT), ("longest", RIGHT), ("in all", RIGHT), ("", LEFT)]
    rows = [
        (
            row.job or "-",
            place(row.function, row.file, row.line),
            f"{row.count:,}",
            seconds(row.longest),
            seconds(row.seconds),
            row.waited or "",
        )
        for row in document.skews
    ]
    return Section("ranks that waited for others to compile", columns, rows, document.skews_left_out)


def _verified(document: Document) -> str:
    """How many, and what became of those that were not found right."""
    others = [f"{row.count:,} {row.reason}" for row in document.reasons if row.outcome == Outcome.VERIFIED.value]
    return f"{document.totals.verified:,}" + (f", of which {', '.join(others)}" if others else "")


def _tiers(document: Document) -> Section:
    rows = [(row.tier, f"{row.hits:,}", size(row.bytes), seconds(row.seconds_saved)) for row in document.tiers]
    return Section("hits by tier", [("tier", LEFT), ("hits", RIGHT), ("read", RIGHT), ("saved", RIGHT)], rows)


def _signers(document: Document) -> Section:
    rows = [(row.signer, row.function, f"{row.hits:,}") for row in document.signers]
    return Section("loaded, by signer", [("signed with key", LEFT), ("function", LEFT), ("hits", RIGHT)], rows)


def _reasons(document: Document) -> Section:
    columns = [("outcome", LEFT), ("reason", LEFT), ("count", RIGHT), ("spent", RIGHT), ("meaning", LEFT)]
    rows = [
        (row.outcome, row.reason, f"{row.count:,}", seconds(row.seconds_spent), row.meaning) for row in document.reasons
    ]
    return Section("not hit, by reason", columns, rows)


def _phases(document: Document) -> Section:
    columns = [("phase", LEFT), *((name, RIGHT) for name in ("all", "hits", "misses", "bypasses", "failures"))]
    rows = [
        (row.phase, *(seconds(one) for one in (row.seconds, row.hit, row.miss, row.bypass, row.failed)))
        for row in document.phases
    ]
    return Section("time by phase", columns, rows)


def _functions(document: Document) -> Section:
    columns = [("function", LEFT), *((name, RIGHT) for name in ("hits", "misses", "bypassed", "spent", "saved"))]
    rows = [
        (
            place(row.function, row.file, row.line),
            f"{row.hits:,}",
            f"{row.misses:,}",
            f"{row.bypasses:,}",
            seconds(row.seconds_spent),
            seconds(row.seconds_saved),
        )
        for row in document.functions
    ]
    return Section("functions that cost most", columns, rows, document.functions_left_out)


def _misses(document: Document) -> Section:
    columns = [("count", RIGHT), ("spent", RIGHT), ("function", LEFT), ("why", LEFT), ("what to do", LEFT)]
    rows = [
        (
            f"{row.count:,}",
            seconds(row.seconds_spent),
            place(row.function, row.file, row.line),
            _why(row),
            row.advice or f"warmgraph explain {(row.key or '')[:11]}",
        )
        for row in document.misses
    ]
    return Section("misses", columns, rows, document.misses_left_out)


def _why(row: MissRow) -> str:
    if row.differs:
        return f"{row.reason}; the nearest, {(row.nearest or '')[:11]}, differs in {', '.join(row.differs)}"
    return f"{row.reason}: {row.detail}" if row.detail else row.reason


def _bypasses(document: Document) -> Section:
    return _causes("bypasses", document.bypasses, document.bypasses_left_out)


def _skips(document: Document) -> Section:
    return _causes("run without CUDA graphs", document.skips, document.skips_left_out)


def _causes(title: str, causes: Sequence[CauseRow], more: int) -> Section:
    columns = [("count", RIGHT), ("function", LEFT), ("why", LEFT), ("what to change", LEFT)]
    rows = [
        (
            f"{row.count:,}",
            place(row.function, row.file, row.line),
            f"{row.reason}: {row.detail or row.meaning}",
            row.advice or "-",
        )
        for row in causes
    ]
    return Section(title, columns, rows, more)


def _again(document: Document) -> Section:
    columns = [("key", LEFT), ("function", LEFT), ("times", RIGHT), ("spent", RIGHT), ("by", LEFT)]
    rows = [
        (
            row.key[:14],
            place(row.function, row.file, row.line),
            f"{row.count:,}",
            seconds(row.seconds),
            ", ".join(map(_who, row.who[:4])) + (", ..." if row.count > 4 else ""),
        )
        for row in document.compiled_again
    ]
    return Section("compiled more than once", columns, rows, document.compiled_again_left_out)


def _who(who: Who) -> str:
    rank = f" rank {who.rank}" if who.rank is not None else ""
    return f"{who.host}/{who.pid}{rank} ({who.reason or '-'})"


def _health(document: Document) -> Section:
    columns = [("tier", LEFT), ("outages", RIGHT), ("hosts", RIGHT), ("why", LEFT)]
    rows = [(row.tier, f"{row.count:,}", f"{row.hosts:,}", row.detail or "-") for row in document.health]
    return Section("sick tiers", columns, rows)


def _stored(document: Document) -> Section:
    rows = []
    if document.store is not None:
        rows = [(row.function or "-", f"{row.entries:,}", size(row.bytes)) for row in document.store.by_function]
    whole = "" if document.store is None else f": {document.store.entries:,} entries, {size(document.store.bytes)}"
    return Section(f"the store by function{whole}", [("function", LEFT), ("entries", RIGHT), ("size", RIGHT)], rows)


def _never_hit(document: Document) -> Section:
    columns = [("key", LEFT), ("function", LEFT), ("size", RIGHT), ("compile", RIGHT), ("created", LEFT)]
    rows = [
        (row.key[:14], row.function or "-", size(row.bytes), seconds(row.compile_seconds), ago(row.created))
        for row in document.never_hit or ()
    ]
    return Section("entries that none of these events hit", columns, rows, document.never_hit_count - len(rows))
