"""From what was counted to the document: rows in order, so many of each, with what they mean. Counts nothing."""

from __future__ import annotations

import time
from typing import Any

from ..reasons import advice_about, advice_for, meaning
from .counting import Auditor, Cause, Process, who_of
from .document import (
    AgainRow,
    Bucket,
    CauseRow,
    Document,
    FunctionRow,
    HealthRow,
    MissRow,
    PhaseRow,
    ProcessRow,
    ReasonRow,
    SignerRow,
    SkewRow,
    Source,
    Step,
    StoredEntry,
    StoredFunction,
    StoreSummary,
    TierRow,
    Totals,
)
from .tables import Rows, Sums

_FUNCTIONS, _AGAIN, _CAUSES, _MISSES, _PROCESSES, _STORED, _UNHIT = 200, 100, 200, 500, 60, 50, 100


def assemble(counted: Auditor, source: Source) -> Document:
    functions, functions_left_out = _functions(counted)
    again, again_left_out = _again(counted)
    bypasses, bypasses_left_out = _causes(counted.bypasses)
    skips, skips_left_out = _causes(counted.skips)
    misses, misses_left_out = _misses(counted)
    skews, skews_left_out = _skews(counted)
    processes, processes_left_out = _processes(counted)
    store, never_hit, never_hit_count = _store(counted)
    return Document(
        warmgraph=_version(),
        generated=time.time(),
        filters=counted.filters,
        source=source,
        totals=_totals(counted.sums),
        tiers=_tiers(counted),
        signers=_signers(counted),
        reasons=_reasons(counted),
        phases=_phases(counted),
        functions=functions,
        functions_left_out=functions_left_out,
        compiled_again=again,
        compiled_again_left_out=again_left_out,
        keys_left_out=counted.keys.left_out,
        bypasses=bypasses,
        bypasses_left_out=bypasses_left_out,
        misses=misses,
        misses_left_out=misses_left_out,
        skips=skips,
        skips_left_out=skips_left_out,
        skews=skews,
        skews_left_out=skews_left_out,
        over_time=_over_time(counted),
        processes=processes,
        processes_left_out=processes_left_out,
        health=_health(counted),
        store=store,
        never_hit=never_hit,
        never_hit_count=never_hit_count,
    )


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # imported late: 20 ms

    try:
        return version("warmgraph")
    except PackageNotFoundError:  # run from a folder that nobody installed
        return "unknown"


def _counts(sums: Sums) -> dict[str, int]:
    """Of the outcomes that every table tells, under the names that rows have for them."""
    outcomes = {"hits": "hit", "misses": "miss", "bypasses": "bypass", "failed": "failed"}
    return {name: sums.count(outcome) for name, outcome in outcomes.items()}


def _totals(sums: Sums) -> Totals:
    counts = _counts(sums)
    hits, looked = counts["hits"], counts["hits"] + counts["misses"]
    return Totals(
        **counts,
        verified=sums.count("verified"),
        skipped=sums.count("skipped"),
        hit_rate=hits / looked if looked else None,
        seconds_saved=sums.saved,
        seconds_spent=sums.spent,
        compile_seconds=sums.compiled,
    )


def _tiers(counted: Auditor) -> tuple[TierRow, ...]:
    rows = [TierRow(name, sums.count("hit"), sums.bytes, sums.saved) for name, sums in counted.tiers.items()]
    return tuple(sorted(rows, key=lambda row: (-row.hits, row.tier)))


def _signers(counted: Auditor) -> tuple[SignerRow, ...]:
    rows = [SignerRow(signer, function, sums.count("hit")) for (signer, function), sums in counted.signers.items()]
    return tuple(sorted(rows, key=lambda row: (-row.hits, row.signer, row.function)))


def _reasons(counted: Auditor) -> tuple[ReasonRow, ...]:
    rows = [
        ReasonRow(outcome, reason, meaning(reason), advice_for(reason), cause.count, cause.spent)
        for (outcome, reason), cause in counted.reasons.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.count, row.outcome, row.reason)))


def _phases(counted: Auditor) -> tuple[PhaseRow, ...]:
    rows = [
        PhaseRow(name, sum(by.values()), *(by.get(outcome, 0.0) for outcome in ("hit", "miss", "bypass", "failed")))
        for name, by in counted.phases.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.seconds, row.phase)))


def _functions(counted: Auditor) -> tuple[tuple[FunctionRow, ...], int]:
    ranked, left_out = counted.functions.top(lambda place, row: (-row.spent, -row.saved, _sortable(place)), _FUNCTIONS)
    rows = [
        FunctionRow(
            function,
            file,
            line,
            **_counts(row),
            skipped=row.count("skipped"),
            seconds_saved=row.saved,
            seconds_spent=row.spent,
            compile_seconds=row.compiled,
            bytes=row.bytes,
            keys=len(row.keys),
        )
        for (function, file, line), row in ranked
    ]
    return tuple(rows), left_out


def _again(counted: Auditor) -> tuple[tuple[AgainRow, ...], int]:
    """Those that cost most first."""
    several = [(key, known) for key, known in counted.keys.items() if known.count > 1]
    several.sort(key=lambda item: (-item[1].seconds, -item[1].count, item[0]))
    rows = [AgainRow(key, *known.place, known.count, known.seconds, who_of(known)) for key, known in several[:_AGAIN]]
    return tuple(rows), len(several) - len(rows)


def _causes(table: Rows[tuple[Any, ...], Cause]) -> tuple[tuple[CauseRow, ...], int]:
    ranked, left_out = table.top(lambda group, cause: (-cause.count, _sortable(group)), _CAUSES)
    rows = [
        CauseRow(reason, function, file, line, detail, cause.count, meaning(reason), advice_for(reason))
        for (reason, function, file, line, detail), cause in ranked
    ]
    return tuple(rows), left_out


def _misses(counted: Auditor) -> tuple[tuple[MissRow, ...], int]:
    ranked, left_out = counted.misses.top(lambda group, cause: (-cause.spent, -cause.count, _sortable(group)), _MISSES)
    rows = [
        MissRow(
            reason,
            function,
            file,
            line,
            detail=detail,
            differs=differs,
            nearest=nearest,
            key=cause.key,
            count=cause.count,
            seconds_spent=cause.spent,
            meaning=meaning(reason),
            advice=advice_about(differs or (), (), detail) or advice_for(reason),
        )
        for (reason, function, file, line, detail, differs, nearest), cause in ranked
    ]
    return tuple(rows), left_out


def _skews(counted: Auditor) -> tuple[tuple[SkewRow, ...], int]:
    ranked, left_out = counted.skews.top(lambda group, waits: (-waits.seconds, _sortable(group)), _CAUSES)
    rows = [
        SkewRow(job, function, file, line, waited, waits.count, waits.seconds, waits.longest)
        for (job, function, file, line, waited), waits in ranked
    ]
    return tuple(rows), left_out


def _over_time(counted: Auditor) -> tuple[Bucket, ...]:
    return tuple(
        Bucket(
            begin,
            end,
            **_counts(sums),
            seconds_saved=sums.saved,
            seconds_spent=sums.spent,
        )
        for begin, end, sums in counted.timeline.buckets()
    )


def _processes(counted: Auditor) -> tuple[tuple[ProcessRow, ...], int]:
    ranked, left_out = counted.processes.top(lambda process, row: (-row.spent, row.begin, process[1]), _PROCESSES)
    return tuple(_process(*process, row) for process, row in ranked), left_out


def _process(host: str, pid: int, started: float | None, row: Process) -> ProcessRow:
    return ProcessRow(
        host,
        pid,
        row.rank,
        row.job,
        started,
        row.begin,
        row.end,
        **_counts(row),
        seconds=dict(row.seconds),
        events=tuple(Step(*step) for step in sorted(row.steps or (), key=lambda step: step[0])),
    )


def _health(counted: Auditor) -> tuple[HealthRow, ...]:
    rows = [HealthRow(*group, outages.count, len(outages.hosts)) for group, outages in counted.health.items()]
    return tuple(sorted(rows, key=lambda row: (-row.count, row.tier, row.detail or "")))


def _store(counted: Auditor) -> tuple[StoreSummary | None, tuple[StoredEntry, ...] | None, int]:
    if counted.store is None or counted.unhit is None:
        return None, None, 0
    entries = counted.store
    by_function: dict[str | None, tuple[int, int]] = {}
    for entry in entries:
        count, size = by_function.get(entry.function, (0, 0))
        by_function[entry.function] = count + 1, size + entry.bytes
    functions = sorted((StoredFunction(name, *sums) for name, sums in by_function.items()), key=lambda row: -row.bytes)
    unhit = sorted((entry for entry in entries if entry.key in counted.unhit), key=lambda one: (-one.bytes, one.key))
    summary = StoreSummary(len(entries), sum(entry.bytes for entry in entries), tuple(functions[:_STORED]))
    return summary, tuple(unhit[:_UNHIT]), len(unhit)


def _sortable(group: tuple[Any, ...]) -> tuple[str, ...]:
    """A group's key as texts: numbers, texts and None do not compare."""
    return tuple(map(str, group))
