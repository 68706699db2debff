"""The audit in a few lines of text, for the end of a run or of a mail. Not the tables (`printing`)."""

from __future__ import annotations

from warmgraph.cache import Outcome, Reason

from ..output import percent, plain, seconds
from .document import CauseRow, Document

_CAUSES = 5
_WRONG = (Outcome.VERIFIED.value, Reason.DIFFERS.value)


def headline(document: Document) -> str:
    """One sentence: the hit rate, what was saved, what was not cached."""
    totals = document.totals
    looked = totals.hits + totals.misses
    said = "no lookups" if totals.hit_rate is None else f"{percent(totals.hit_rate)} of {looked:,} lookups were hits"
    said += f"; {seconds(totals.seconds_saved)} of compiling saved, {seconds(totals.seconds_spent)} spent"
    others = {"bypassed": totals.bypasses, "failed": totals.failed, "without CUDA graphs": totals.skipped}
    others["gave ANOTHER RESULT than a fresh compile"] = wrong_hits(document)
    for what, many in others.items():
        said += f"; {many:,} {what}" if many else ""
    return said


def wrong_hits(document: Document) -> int:
    """How many hits were verified and found wrong. Nothing that a cache can do is worse."""
    return sum(row.count for row in document.reasons if (row.outcome, row.reason) == _WRONG)


def summary_lines(document: Document) -> list[str]:
    """The headline, misses by reason, each bypass with what to change, outages. Nothing in it moves a terminal."""
    lines = [headline(document)]
    missed = [f"{row.reason} {row.count:,}" for row in document.reasons if row.outcome == "miss"]
    if missed:
        lines.append(f"misses: {', '.join(missed)}")
    lines += _causes("bypassed", document.bypasses, document.bypasses_left_out)
    lines += _causes("without CUDA graphs", document.skips, document.skips_left_out)
    lines += [
        f"{row.tier} was unavailable {count(row.count, 'time')} on {count(row.hosts, 'host')}: {row.detail or '-'}"
        for row in document.health[:_CAUSES]
    ]
    return [plain(line) for line in lines]


def count(number: int, what: str, more: str = "s") -> str:
    """`1 host`, `2 hosts`."""
    return f"{number:,} {what}{'' if number == 1 else more}"


def place(function: str | None, file: str | None, line: int | None) -> str:
    """`forward (model.py:12)`."""
    where = f" ({file}:{line})" if file and line else f" ({file})" if file else ""
    return f"{function or 'a graph'}{where}"


def _causes(what: str, rows: tuple[CauseRow, ...], left_out: int) -> list[str]:
    lines = []
    for row in rows[:_CAUSES]:
        advice = f". {row.advice}" if row.advice else ""
        where = place(row.function, row.file, row.line)
        lines.append(f"{what} {count(row.count, 'time')}: {where}: {row.reason}: {row.detail or row.meaning}{advice}")
    more = len(rows) - len(lines) + left_out
    return [*lines, f"{what}: {more} more causes, see `warmgraph audit`"] if more else lines
